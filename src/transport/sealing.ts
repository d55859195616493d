/**
 * Encryption of links through the server, which forwards messages without reading them. The ends
 * agree on keys by ECDH on the curve P-256, with public keys that travel in signals. Each direction
 * has its own AES-256-GCM key, so a message that is sent back to its sender does not open.
 */
import { fromBase64url, toBase64url } from '../util/base64url.ts';
import { ProtocolError } from '../util/errors.ts';

const CURVE: EcKeyGenParams = { name: 'ECDH', namedCurve: 'P-256' };
const SECRET_BITS = 256;
const NONCE_BYTES = 12;
/** The number of a message is in the last eight bytes of its nonce. */
const NUMBER_AT = NONCE_BYTES - 8;

/** The keys of one end. They serve one attempt to link, so that no nonce is used twice. */
export interface LinkKeys {
  readonly privateKey: CryptoKey;
  /** Base64url, 87 characters. */
  readonly publicKey: string;
}

export interface FrameSeals {
  /**
   * Encrypts a frame. The other end must open the messages in the order of these calls. `frame`
   * may be used again as soon as the call returns.
   */
  seal(frame: ArrayBuffer): Promise<ArrayBuffer>;
  /**
   * Decrypts a message. Calls must have the order in which the other end has sealed the messages.
   *
   * @throws (rejects) ProtocolError if the message was changed, repeated or reordered, or if a
   *   message before it is missing.
   */
  open(message: ArrayBuffer): Promise<ArrayBuffer>;
}

export async function createLinkKeys(subtle: SubtleCrypto): Promise<LinkKeys> {
  const { privateKey, publicKey } = await subtle.generateKey(CURVE, false, ['deriveBits']);
  return { privateKey, publicKey: toBase64url(new Uint8Array(await subtle.exportKey('raw', publicKey))) };
}

/**
 * Derives the seals of one end of a link.
 *
 * @param othersKey public key of the other end.
 * @param channel id of the link. Both ends pass the same one.
 * @throws (rejects) ProtocolError if the other end's key is invalid.
 */
export async function deriveFrameSeals(
  subtle: SubtleCrypto,
  { privateKey }: LinkKeys,
  othersKey: string,
  channel: string,
  isInitiator: boolean,
): Promise<FrameSeals> {
  const secret = await agree(subtle, privateKey, othersKey);
  const material = await subtle.importKey('raw', secret, 'HKDF', false, ['deriveKey']);
  const keyFrom = (sender: string, usage: KeyUsage): Promise<CryptoKey> => {
    const info = new TextEncoder().encode(`peergrad link ${channel}, frames of the ${sender}`);
    const hkdf: HkdfParams = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info };
    return subtle.deriveKey(hkdf, material, { name: 'AES-GCM', length: 256 }, false, [usage]);
  };
  const [own, others] = isInitiator ? ['initiator', 'follower'] : ['follower', 'initiator'];
  const [sealing, opening] = await Promise.all([keyFrom(own, 'encrypt'), keyFrom(others, 'decrypt')]);
  const nextSealed = countNonces();
  const nextOpened = countNonces();
  return {
    seal: (frame) => subtle.encrypt(nextSealed(), sealing, frame),
    async open(message) {
      try {
        return await subtle.decrypt(nextOpened(), opening, message);
      } catch (error) {
        throw new ProtocolError(
          'A message of a link through the server was changed on its way, repeated or lost. If it happens again, ' +
            'check programs that read network traffic: proxies and virus scanners.',
          {},
          { cause: error },
        );
      }
    },
  };
}

async function agree(subtle: SubtleCrypto, own: CryptoKey, othersKey: string): Promise<ArrayBuffer> {
  try {
    const others = await subtle.importKey('raw', fromBase64url(othersKey), CURVE, false, []);
    return await subtle.deriveBits({ name: 'ECDH', public: others }, own, SECRET_BITS);
  } catch (error) {
    throw new ProtocolError(
      'The other end of a link through the server sent an invalid public key. Reload both pages.',
      {},
      { cause: error },
    );
  }
}

/**
 * Returns a function that returns the parameters for each message in turn. A number has 53 bits, so
 * no number repeats: at a million messages a second, the numbers last for 285 years.
 */
function countNonces(): () => AesGcmParams {
  let next = 0;
  return () => {
    const iv = new Uint8Array(NONCE_BYTES);
    new DataView(iv.buffer).setBigUint64(NUMBER_AT, BigInt(next));
    next += 1;
    return { name: 'AES-GCM', iv };
  };
}
