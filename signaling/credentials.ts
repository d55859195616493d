/**
 * What members show to prove who they are: a token for their place in the room, a key for its host.
 * HMACs (RFC 2104) over room and member with an expiry, so that the server keeps none of them, and
 * one that has restarted with the same secret knows them.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { UsageError } from '../src/util/errors.ts';

/**
 * Seconds a token or key is good for: a day without the server, which renews them half-way while
 * the member is there.
 */
const LIFETIME_S = 24 * 60 * 60;
const SECRET_BYTES = 32;
/** Shortest secret that is not guessed. */
const MIN_SECRET_LENGTH = 16;

export class Credentials {
  /** Whether another process knows them: the secret was given, not made here. */
  readonly areLasting: boolean;
  readonly #secret: string;
  readonly #now: () => number;

  /**
   * @param secret the same in all processes that serve the same rooms; by default one of its own.
   * @param now Unix time, milliseconds.
   * @throws UsageError for a secret that could be guessed.
   */
  constructor(secret: string | null, now: () => number = Date.now) {
    if (secret !== null && secret.length < MIN_SECRET_LENGTH) {
      throw new UsageError(
        `The secret must have at least ${MIN_SECRET_LENGTH} characters: try "openssl rand -base64 32".`,
      );
    }
    this.areLasting = secret !== null;
    this.#secret = secret ?? randomBytes(SECRET_BYTES).toString('base64url');
    this.#now = now;
  }

  tokenFor(room: string, member: string): string {
    return this.#sign(`member ${room} ${member}`);
  }

  isToken(token: string, room: string, member: string): boolean {
    return this.#verify(token, `member ${room} ${member}`);
  }

  hostKeyFor(room: string): string {
    return this.#sign(`host ${room}`);
  }

  isHostKey(key: string, room: string): boolean {
    return this.#verify(key, `host ${room}`);
  }

  /** Proves that `members` were sent out of the room. It lasts: ids are used once. */
  sealOf(room: string, members: readonly string[]): string {
    return this.#hmac(`removed ${room} ${members.join(' ')}`).toString('base64url');
  }

  isSeal(seal: string, room: string, members: readonly string[]): boolean {
    return isSame(seal, this.#hmac(`removed ${room} ${members.join(' ')}`));
  }

  /**
   * Whether half of a credential's time is over: one renewed from then on is good for as long as
   * the server may be away.
   */
  isHalfOver(credential: string): boolean {
    return expiryOf(credential) - this.#now() / 1000 <= LIFETIME_S / 2;
  }

  #sign(what: string): string {
    const expiry = (Math.floor(this.#now() / 1000) + LIFETIME_S).toString(36);
    return `${expiry}.${this.#hmac(`${what} ${expiry}`).toString('base64url')}`;
  }

  #verify(credential: string, what: string): boolean {
    const [expiry = '', digest = ''] = credential.split('.', 2);
    if (!(expiryOf(credential) > this.#now() / 1000)) return false;
    return isSame(digest, this.#hmac(`${what} ${expiry}`));
  }

  #hmac(what: string): Buffer {
    return createHmac('sha256', this.#secret).update(what).digest();
  }
}

function isSame(text: string, due: Buffer): boolean {
  const given = Buffer.from(text, 'base64url');
  return given.length === due.length && timingSafeEqual(given, due);
}

/** Unix time, seconds; NaN for what is no credential. */
function expiryOf(credential: string): number {
  return Number.parseInt(credential, 36);
}
