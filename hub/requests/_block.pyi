from hub.requests.pending import PureBlock

Block = PureBlock
