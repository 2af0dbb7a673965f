"""Zeek clusters of a hub of several processes: the core is the node, and clients of any worker hear of the others."""

from __future__ import annotations

import asyncio

import zmq

from tests.connections.zeek_cluster.nodes import ZeekNode, ZmqBroker
from tests.hubs.eventually import eventually
from tests.workers.conftest import SpreadClients, StartWorkers


async def test_clients_of_all_workers_hear_of_nodes(start_workers: StartWorkers, spread: SpreadClients) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    broker = ZmqBroker(context)
    manager = ZeekNode(context, broker.endpoint, "manager")
    try:
        hub = await start_workers("--peer", f"{broker.endpoint}&name=hub")
        await eventually(lambda: manager.run().up)
        for client in await spread(hub.endpoints[0].location):
            while not (found := await client.request("$hub/nodes", None)):
                pass
            assert [row["name"] for row in found] == ["manager"]
            async with client.subscribe("$hub/nodes/") as told:
                first = asyncio.ensure_future(anext(told))
                while not first.done():  # a worker says within a second that it is wanted there
                    worker = ZeekNode(context, broker.endpoint, "worker-1")
                    await eventually(lambda node=worker: "hub" in node.run().up.values())  # type: ignore[misc]
                    worker.close()
                    await asyncio.sleep(0.1)
                assert (await first).value["name"] == "worker-1"
    finally:
        manager.close()
        broker.stop()
        context.term()
