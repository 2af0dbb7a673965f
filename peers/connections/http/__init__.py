"""HTTP on the port for WebSockets: who may ask (`gate`, `hosts`, `origins`), and what is answered (`answers`)."""
