"""What a far side may ask of the hub, each verb once, whatever the transport."""
