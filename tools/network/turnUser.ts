/** Reads the user of a TURN request. */

/** The start of a STUN message: type and length, magic cookie, transaction id (RFC 8489). */
const HEADER_BYTES = 20;
const MAGIC_COOKIE = 0x2112a442;
const USERNAME = 0x0006;
/** Header of an attribute: its type and its length. */
const ATTRIBUTE_BYTES = 4;

/** Returns the attribute USERNAME of a STUN message; `null` for other packets. */
export function turnUserOf(packet: Buffer): string | null {
  if (packet.length < HEADER_BYTES || packet.readUInt32BE(4) !== MAGIC_COOKIE) return null;
  for (let at = HEADER_BYTES; at + ATTRIBUTE_BYTES <= packet.length;) {
    const type = packet.readUInt16BE(at);
    const length = packet.readUInt16BE(at + 2);
    const value = at + ATTRIBUTE_BYTES;
    if (type === USERNAME) return packet.toString('utf8', value, value + length);
    // Attributes begin at multiples of four bytes.
    at = value + Math.ceil(length / 4) * 4;
  }
  return null;
}
