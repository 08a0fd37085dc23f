"""Load: signed transfers that make accounts and change them, so that snapshots have content.

Ed25519 as in RFC 8032, with nothing but Python's integers: some hundred signatures a second.
"""

import base64
import hashlib
import json
import pathlib
import random
import threading
import time
import urllib.request

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def add(one, two):
    a = (one[1] - one[0]) * (two[1] - two[0]) % P
    b = (one[1] + one[0]) * (two[1] + two[0]) % P
    c, d = 2 * one[3] * two[3] * D % P, 2 * one[2] * two[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def base_point():
    y = 4 * pow(5, -1, P) % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    x = P - x if x & 1 else x
    return x, y, 1, x * y % P


POWERS = [base_point()]
for _ in range(255):
    POWERS.append(add(POWERS[-1], POWERS[-1]))


def multiply(scalar):
    point = (0, 1, 1, 0)
    for bit, power in enumerate(POWERS):
        if scalar >> bit & 1:
            point = add(point, power)
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def sign(keypair, message):
    secret, public = keypair[:32], keypair[32:]
    digest = hashlib.sha512(secret).digest()
    scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | (1 << 254)
    number = lambda *parts: int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")
    nonce = number(digest[32:], message) % ORDER
    commitment = multiply(nonce)
    answer = (nonce + number(commitment, public, message) * scalar) % ORDER
    return commitment + answer.to_bytes(32, "little")


def base58(text):
    number = 0
    for character in text:
        number = number * 58 + ALPHABET.index(character)
    return number.to_bytes(32, "big")


def base58_text(content):
    number, text = int.from_bytes(content, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return text


def rpc(port, method, *arguments):
    """The answer's `result`; None while nobody answers."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": arguments}
    request = urllib.request.Request(f"http://127.0.0.1:{port}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=2) as answer:
            return json.load(answer).get("result")
    except (OSError, ValueError):
        return None


def transfer(payer, to, lamports, blockhash):
    message = (bytes([1, 0, 1, 3]) + payer[32:] + to + bytes(32) + blockhash
               + bytes([1, 2, 2, 0, 1, 12]) + (2).to_bytes(4, "little")
               + lamports.to_bytes(8, "little"))
    return bytes([1]) + sign(payer, message) + message


class Load(threading.Thread):
    """Twenty transfers a second while a validator answers: half to new accounts."""

    def __init__(self, port, keypair, seed):
        super().__init__(daemon=True)
        self.port, self.sent = port, 0
        self.payer = bytes(json.loads(pathlib.Path(keypair).read_text()))
        self.random = random.Random(seed)

    def run(self):
        known = [self.random.randbytes(32)]
        while True:
            latest = rpc(self.port, "getLatestBlockhash")
            if latest is None:
                time.sleep(0.5)
                continue
            blockhash = base58(latest["value"]["blockhash"])
            for _ in range(20):
                if self.random.random() < 0.5 and len(known) < 100_000:
                    known.append(self.random.randbytes(32))
                transaction = transfer(self.payer, self.random.choice(known[-500:]),
                                       self.random.randrange(1_000_000, 2_000_000), blockhash)
                text = base64.b64encode(transaction).decode()
                options = {"encoding": "base64", "skipPreflight": True}
                self.sent += rpc(self.port, "sendTransaction", text, options) is not None
                time.sleep(0.05)
