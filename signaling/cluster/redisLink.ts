/**
 * A connection to Redis, from its opening to its end, with its own channel. Messages to a channel
 * arrive completely and in order; if no process listens, the publisher is informed. So no message
 * is lost unnoticed when a connection breaks.
 */
import type { Clock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { SignalingError, TimeoutError, UsageError } from '../../src/util/errors.ts';

/** Time limit in milliseconds for TCP, TLS and the first response. */
const CONNECT_TIMEOUT_MS = 5_000;
/**
 * Milliseconds for which a lease on a room is valid after its last renewal. This is short because
 * no tab can join while the lease of a crashed owner is still valid.
 */
export const LEASE_MS = 6_000;

/**
 * Takes each lease that is free, and renews each lease that this process has. Returns for each room
 * 1 if this process has the lease now, otherwise 0.
 */
const HOLD = `
  local held = {}
  for i, room in ipairs(KEYS) do
    local owner = redis.call('GET', room)
    if not owner or string.sub(owner, 1, #ARGV[1]) == ARGV[1] then
      redis.call('SET', room, ARGV[2], 'PX', ARGV[3])
      held[i] = 1
    else
      held[i] = 0
    end
  end
  return held`;

const RELEASE = `
  for _, room in ipairs(KEYS) do
    local owner = redis.call('GET', room)
    if owner and string.sub(owner, 1, #ARGV[1]) == ARGV[1] then redis.call('DEL', room) end
  end`;

const SECRET_KEY = 'peergrad:secret';
const keyOf = (code: string): string => `peergrad:room:${code}`;
const channelOf = (address: string): string => `peergrad:process:${address}`;
/** The channel to all processes. */
const ALL = 'peergrad:processes';

/** @throws (rejects) UsageError for an invalid URL. */
async function createClient(url: string) {
  // The Redis client is imported here, so that a server without Redis never loads it.
  const redis = await import('redis');
  try {
    return redis.createClient({
      url,
      // With RESP 3, a single connection can serve both commands and channels. Redis supports RESP
      // 3 since version 6.
      RESP: 3,
      maintNotifications: 'disabled',
      // A lost connection is not reopened, and its unsent commands are dropped.
      disableOfflineQueue: true,
      socket: { reconnectStrategy: false, connectTimeout: CONNECT_TIMEOUT_MS },
    });
  } catch (error) {
    // The error does not quote the URL, because the URL may contain a password.
    throw new UsageError('REDIS_URL is not a Redis URL such as redis://host:6379.', {}, { cause: error });
  }
}
type Client = Awaited<ReturnType<typeof createClient>>;

export function noAnswer(): TimeoutError {
  return new TimeoutError('Redis did not answer in time.');
}

export class RedisLink {
  /** Address at which other processes reach this process while the connection lasts. */
  readonly address: string;
  /** Prefix of the values in Redis that belong to this process. */
  readonly #prefix: string;
  readonly #client: Client;
  readonly #onlost: () => void;
  #isLost = false;

  private constructor(client: Client, processId: string, count: number, onlost: () => void) {
    this.#client = client;
    this.#prefix = `${processId}.`;
    this.address = `${this.#prefix}${count}`;
    this.#onlost = onlost;
    client.on('error', () => this.#lose());
    client.on('end', () => this.#lose());
  }

  /**
   * @param count number of connections that this process has opened so far. With it, each
   * connection has its own address.
   * @param onlost called once when an open connection is lost or {@link close} is called.
   * @throws (rejects) UsageError for an invalid URL, SignalingError if the connection fails.
   */
  static async connect(
    { url, clock, processId, count }: { url: string; clock: Clock; processId: string; count: number },
    onmessage: (link: RedisLink, message: Buffer) => void,
    onlost: (link: RedisLink) => void,
  ): Promise<RedisLink> {
    const client = await createClient(url);
    let isUp = false;
    const link: RedisLink = new RedisLink(client, processId, count, () => {
      if (isUp) onlost(link);
    });
    try {
      const opened = client
        .connect()
        .then(() => client.subscribe([channelOf(link.address), ALL], (message) => onmessage(link, message), true));
      await withinDeadline(clock, CONNECT_TIMEOUT_MS, opened, noAnswer);
      isUp = true;
      return link;
    } catch (error) {
      link.close();
      const { hostname, port } = new URL(url);
      throw new SignalingError(
        `The connection to Redis at ${hostname}:${port || 6379} failed. Check that Redis runs, and check its password and REDIS_URL.`,
        {},
        { cause: error },
      );
    }
  }

  /**
   * Takes leases on rooms, which are valid for {@link LEASE_MS} from now. Returns for each room
   * whether this process has the lease.
   */
  async hold(codes: readonly string[]): Promise<boolean[]> {
    const keys = codes.map(keyOf);
    const held = await this.#ask(
      this.#client.eval(HOLD, { keys, arguments: [this.#prefix, this.address, String(LEASE_MS)] }),
    );
    return (held as number[]).map((one) => one === 1);
  }

  /** Gives up leases on rooms. */
  async release(codes: readonly string[]): Promise<void> {
    if (codes.length === 0) return;
    await this.#ask(this.#client.eval(RELEASE, { keys: codes.map(keyOf), arguments: [this.#prefix] }));
  }

  /**
   * Returns the address of a room's owner and the remaining milliseconds of its lease, or `null` if
   * the room has no owner.
   */
  async ownerOf(code: string): Promise<{ address: string; isThis: boolean; restMs: number } | null> {
    const key = keyOf(code);
    const [address, restMs] = await this.#ask(Promise.all([this.#client.get(key), this.#client.pTTL(key)]));
    return address === null ? null : { address, isThis: address.startsWith(this.#prefix), restMs };
  }

  async isListening(address: string): Promise<boolean> {
    const channel = channelOf(address);
    const counts = await this.#ask(this.#client.pubSubNumSub([channel]));
    return (counts[channel] ?? 0) > 0;
  }

  /** Publishes a message. Resolves with `false` if no process received it. */
  async publish(address: string, message: string | Buffer): Promise<boolean> {
    return (await this.#ask(this.#client.publish(channelOf(address), message))) > 0;
  }

  /** Publishes a message to all processes, also to this one. */
  async publishToAll(message: string | Buffer): Promise<void> {
    await this.#ask(this.#client.publish(ALL, message));
  }

  /**
   * Resolves with the secret that all processes share: the existing secret, or `mine` if there is
   * none.
   */
  async agreeOnSecret(mine: string): Promise<string> {
    const kept = this.#client.set(SECRET_KEY, mine, { condition: 'NX' });
    const [, shared] = await this.#ask(Promise.all([kept, this.#client.get(SECRET_KEY)]));
    return shared ?? mine;
  }

  /** Closes the connection after all pending commands are answered. */
  async end(): Promise<void> {
    await this.#ask(this.#client.close());
  }

  /** Closes the connection immediately; pending commands reject. */
  close(): void {
    if (this.#client.isOpen) this.#client.destroy();
    this.#lose();
  }

  async #ask<Answer>(answer: Promise<Answer>): Promise<Answer> {
    try {
      return await answer;
    } catch (error) {
      throw new SignalingError(
        'This server has lost the connection to the other servers. Try again in a few seconds.',
        {},
        { cause: error },
      );
    }
  }

  #lose(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    // `onlost` is called later, because the code that closes a link must not receive this call
    // while it is closing the link.
    queueMicrotask(this.#onlost);
  }
}
