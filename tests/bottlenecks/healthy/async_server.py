"""An asyncio server that signs documents, and clients that send them.

Problem: none
Needs: nothing
"""

import asyncio
import hashlib
import os
import zlib

STEPS = int(os.environ.get("STEPS", "160"))
CLIENTS = 8


async def handle(reader, writer):
    while header := await reader.read(4):
        body = await reader.readexactly(int.from_bytes(header, "big"))
        digest = hashlib.sha512(zlib.compress(body, 6)).digest()
        writer.write(digest)
        await writer.drain()
    writer.close()


async def client(port, documents):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for document in documents:
        writer.write(len(document).to_bytes(4, "big") + document)
        await reader.readexactly(64)
    writer.close()
    await writer.wait_closed()


async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    document = " ".join(str(i * i % 9973) for i in range(40_000)).encode()
    share = [document] * (STEPS // CLIENTS)
    await asyncio.gather(*(client(port, share) for _ in range(CLIENTS)))
    server.close()
    print("signed", len(share) * CLIENTS)


asyncio.run(main())
