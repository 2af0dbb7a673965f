from hub.requests.block import Block as Block
