"""CURVE, the mechanism of ZMTP that encrypts, and says who is there: CurveZMQ, RFC 25 and 26 of ZeroMQ.

```
client  C, c: its long-term keys                         server  S, s: its long-term keys
  HELLO     C', proof that it knows S                 ─▶
            ◀─  WELCOME   S', and a cookie in which the server keeps what it would have to remember
  INITIATE  the cookie, C, a vouch of C for C', metadata ─▶   is C allowed?
            ◀─  READY     metadata
  MESSAGE   one box for each frame, numbered          ◀─▶
```

C' and S' are made for the connection and thrown away with it. All but `z85` needs PyNaCl, the extra `curve`.
"""
