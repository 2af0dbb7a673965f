"""CURVE, the mechanism of ZMTP that encrypts, and says who is there: CurveZMQ, RFC 25 and 26 of ZeroMQ.

```
client  C, c: its long-term keys                         server  S, s: its long-term keys
  HELLO     C', proof that it knows S                 ─▶
            ◀─  WELCOME   S', and a cookie in which the server keeps what it would have to remember
  INITIATE  the cookie, C, a vouch of C for C', metadata ─▶   is C allowed?
            ◀─  READY     metadata
  MESSAGE   one box for each frame, numbered          ◀─▶
```

C' and S' are made for the connection and thrown away with it: who gets to know c and s later reads nothing of it.

| file | |
|---|---|
| `key_pair` | the keys of one side |
| `z85` | keys as text, as libzmq has them |
| `commands` | what the handshake's commands look like, for both sides |
| `server`, `client` | the handshake |
| `traffic` | boxes of frames |
| `sealed` | what finds the frames in what was read |

All but `z85` needs PyNaCl, the extra `curve`.
"""
