from hub.requests.services import PureBlock

Block = PureBlock
