/**
 * One connection to Redis, from its opening to its end. Its channel lives as long as it does: who
 * publishes there is heard completely and in order, or learns that nobody listens. So a lost
 * connection never hides a lost message.
 */
import type { Clock } from '../../src/util/clock.ts';
import { within } from '../../src/util/deadline.ts';
import { SignalingError, TimeoutError, UsageError } from '../../src/util/errors.ts';

/** Milliseconds for TCP, TLS and the first answer. */
const CONNECT_TIMEOUT_MS = 5_000;
/**
 * Milliseconds a room stays its owner's after the last renewal: short, as nobody is let in
 * meanwhile where the owner has died.
 */
export const LEASE_MS = 6_000;

/** Takes or renews what is free or the process's own already: 1, else 0, of each room. */
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

/** Loaded here, so that a server that is alone never loads it. */
async function createClient(url: string) {
  const redis = await import('redis');
  return redis.createClient({
    // One connection for commands and channels needs protocol 3: Redis 6.
    ...{ url, RESP: 3, maintNotifications: 'disabled' },
    // A connection that is lost is over; what could not be sent is not sent later.
    ...{ disableOfflineQueue: true, socket: { reconnectStrategy: false, connectTimeout: CONNECT_TIMEOUT_MS } },
  });
}
type Client = Awaited<ReturnType<typeof createClient>>;

export function noAnswer(): TimeoutError {
  return new TimeoutError('Redis did not answer in time.');
}

export class RedisLink {
  /** Others reach this process here while the connection lasts. */
  readonly address: string;
  /** How keys that are this process's begin. */
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
   * @param count of this process's connections so far: each has an address of its own.
   * @param onlost called once, when a connection that was made is gone, also by {@link close}.
   * @throws (rejects) UsageError for what is no address, SignalingError where no Redis answers
   *   there.
   */
  static async connect(
    { url, clock, processId, count }: { url: string; clock: Clock; processId: string; count: number },
    onmessage: (link: RedisLink, text: string) => void,
    onlost: (link: RedisLink) => void,
  ): Promise<RedisLink> {
    let client: Client;
    try {
      client = await createClient(url);
    } catch (error) {
      // The address itself is not quoted: it may have a password.
      throw new UsageError('REDIS_URL is no address of a Redis such as redis://host:6379.', {}, { cause: error });
    }
    let isUp = false;
    const link: RedisLink = new RedisLink(client, processId, count, () => {
      if (isUp) onlost(link);
    });
    try {
      const opened = client
        .connect()
        .then(() => client.subscribe(channelOf(link.address), (text) => onmessage(link, text)));
      await within(clock, CONNECT_TIMEOUT_MS, opened, noAnswer);
      isUp = true;
      return link;
    } catch (error) {
      link.close();
      const { hostname, port } = new URL(url);
      throw new SignalingError(
        `The Redis at ${hostname}:${port || 6379} does not answer: check that it runs, its password, and REDIS_URL.`,
        {},
        { cause: error },
      );
    }
  }

  /**
   * Makes this process the owner of rooms that nobody else has, for {@link LEASE_MS} from now: of
   * which it is.
   */
  async hold(codes: readonly string[]): Promise<boolean[]> {
    const keys = codes.map(keyOf);
    const held = await this.#ask(
      this.#client.eval(HOLD, { keys, arguments: [this.#prefix, this.address, String(LEASE_MS)] }),
    );
    return (held as number[]).map((one) => one === 1);
  }

  /** Leaves rooms to whoever wants them. */
  async release(codes: readonly string[]): Promise<void> {
    if (codes.length === 0) return;
    await this.#ask(this.#client.eval(RELEASE, { keys: codes.map(keyOf), arguments: [this.#prefix] }));
  }

  /** The address of a room's owner, and milliseconds for which it owns it; `null`: nobody does. */
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

  /** Whether anybody has it. */
  async publish(address: string, text: string): Promise<boolean> {
    return (await this.#ask(this.#client.publish(channelOf(address), text))) > 0;
  }

  /** The secret that all processes share: theirs, if there is one, else `mine`. */
  async agreeOnSecret(mine: string): Promise<string> {
    const kept = this.#client.set(SECRET_KEY, mine, { condition: 'NX' });
    const [, shared] = await this.#ask(Promise.all([kept, this.#client.get(SECRET_KEY)]));
    return shared ?? mine;
  }

  /** Once all that was asked for is answered. */
  async end(): Promise<void> {
    await this.#ask(this.#client.close());
  }

  /** At once; what waits for an answer rejects. */
  close(): void {
    if (this.#client.isOpen) this.#client.destroy();
    this.#lose();
  }

  async #ask<Answer>(answer: Promise<Answer>): Promise<Answer> {
    try {
      return await answer;
    } catch (error) {
      throw new SignalingError(
        'This server has lost touch with the others: try again in a few seconds.',
        {},
        { cause: error },
      );
    }
  }

  #lose(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    // Not in the middle of what closes it.
    queueMicrotask(this.#onlost);
  }
}
