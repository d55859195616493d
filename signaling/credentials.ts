/**
 * Credentials of members: a token proves a member's place in the room, and a key proves that a
 * member is host. Both are HMACs (RFC 2104) over the room, the member and an expiry. So the server
 * stores no credentials, and a restarted server with the same secret can verify them.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { UsageError } from '../src/util/errors.ts';

/**
 * Seconds for which a token or key is valid. While a member is present, the server renews its
 * credentials after half of this time.
 */
const LIFETIME_S = 24 * 60 * 60;
const SECRET_BYTES = 32;
/** Minimum length of a secret that cannot be guessed. */
const MIN_SECRET_LENGTH = 16;

export class Credentials {
  /**
   * Whether credentials stay valid after this process has ended. This is true if the secret was
   * passed to the constructor, and false if the secret was created here.
   */
  readonly areLasting: boolean;
  readonly #secret: string;
  readonly #now: () => number;

  /**
   * @param secret the same in all processes that serve the same rooms. `null` creates a random
   * secret.
   * @param now Unix time, milliseconds.
   * @throws UsageError for a secret that could be guessed.
   */
  constructor(secret: string | null, now: () => number = Date.now) {
    if (secret !== null && secret.length < MIN_SECRET_LENGTH) {
      throw new UsageError(
        `The secret must have at least ${MIN_SECRET_LENGTH} characters. Create one with "openssl rand -base64 32".`,
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

  /**
   * Returns a seal: it proves that `members` were removed from the room. A seal does not expire,
   * because each member id is used only once.
   */
  sealOf(room: string, members: readonly string[]): string {
    return this.#hmac(`removed ${room} ${members.join(' ')}`).toString('base64url');
  }

  isSeal(seal: string, room: string, members: readonly string[]): boolean {
    return isSame(seal, this.#hmac(`removed ${room} ${members.join(' ')}`));
  }

  /** Whether half of a credential's lifetime is over, so that it should be renewed. */
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

/** Returns the expiry as Unix time in seconds, or NaN for an invalid credential. */
function expiryOf(credential: string): number {
  return Number.parseInt(credential, 36);
}
