"""Named consumers, without I/O: what each has read and acknowledged, and which of its members has which message.

| file | |
|---|---|
| `terms` | what a consumer wants, and how it is to be given that |
| `order` | which messages keep their order, by the key of their consumer |
| `progress` | what is kept of a consumer when the hub ends |
| `item`, `key`, `member` | a message that is not done with; those that keep their order; one of those who share |
| `consumer` | the state of one consumer |
"""
