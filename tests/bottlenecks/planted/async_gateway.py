"""An asyncio server that looks up accounts, and clients that ask it.

Problem: waiting-sleep
Needs: nothing
"""

import asyncio
import hashlib
import json
import os
import time

STEPS = int(os.environ.get("STEPS", "200"))
FIXED = os.environ.get("FIXED") == "1"
CLIENTS = 16


async def look_up(account):
    """Ask the database, which takes a while."""
    if FIXED:
        await asyncio.sleep(0.015)
    else:
        time.sleep(0.015)  # guilty
    signature = hashlib.pbkdf2_hmac("sha256", b"key", str(account).encode(), 2000)
    return {"account": account, "balance": account * 17 % 1000, "signature": signature.hex()}


async def serve(reader, writer):
    while line := await reader.readline():
        answer = await look_up(json.loads(line)["account"])  # guilty
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
    writer.close()


async def client(port, accounts):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    total = 0
    for account in accounts:
        writer.write(json.dumps({"account": account}).encode() + b"\n")
        total += json.loads(await reader.readline())["balance"]
    writer.close()
    return total


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    accounts = range(STEPS)
    totals = await asyncio.gather(*(client(port, accounts[i::CLIENTS]) for i in range(CLIENTS)))
    print(sum(totals))
    server.close()


asyncio.run(main())
