/**
 * Decides which clients may open a WebSocket. The decision uses the upgrade request and the number
 * of open connections of the client's address.
 */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Clock } from '../src/util/clock.ts';
import { UsageError } from '../src/util/errors.ts';
import { isLoopback } from './http/address.ts';
import { AddressBuckets, type Limits } from './limits.ts';

export class ConnectionLimiter {
  readonly #limits: Limits;
  readonly #paths: ReadonlySet<string>;
  readonly #origins: ReadonlySet<string>;
  readonly #rate: AddressBuckets;
  /** Number of open WebSockets by address. */
  readonly #open = new Map<string, number>();

  /**
   * @param paths paths of WebSockets.
   * @param origins origins whose pages may connect, in addition to the server's own origin and to
   *   servers of the client's machine, such as those of Vite.
   * @throws UsageError for an invalid origin.
   */
  constructor(clock: Clock, limits: Limits, paths: readonly string[], origins: readonly string[]) {
    this.#limits = limits;
    this.#paths = new Set(paths);
    this.#origins = new Set(origins.map(checkedOrigin));
    this.#rate = new AddressBuckets(clock, limits.connectionsPerSecond, limits.connectionBurst);
  }

  /**
   * Returns the HTTP status that refuses an upgrade request, or `null` if the request is accepted.
   */
  refusalOf(req: IncomingMessage, address: string): number | null {
    if (!this.#paths.has(pathOf(req))) return 404;
    if ((this.#open.get(address) ?? 0) >= this.#limits.socketsPerAddress) return 429;
    if (!this.#rate.take(address)) return 429;
    return this.#isOwnPage(req) ? null : 403;
  }

  opened(address: string): void {
    this.#open.set(address, (this.#open.get(address) ?? 0) + 1);
  }

  closed(address: string): void {
    const left = (this.#open.get(address) ?? 1) - 1;
    if (left > 0) this.#open.set(address, left);
    else this.#open.delete(address);
  }

  /**
   * Whether the request comes from a page of an allowed origin, or from a program that is not a
   * browser: only such programs send no Origin header. Without this check, a page of another site
   * could join rooms through the browsers of its visitors. (A reverse proxy must forward the Host
   * header, or its origin must be in `origins`.)
   */
  #isOwnPage({ headers: { origin, host } }: IncomingMessage): boolean {
    if (origin === undefined) return true;
    if (!URL.canParse(origin)) return false;
    const { host: from, hostname } = new URL(origin);
    return from === host || this.#origins.has(origin) || isOfThisMachine(hostname);
  }
}

export function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?', 1)[0]!;
}

/**
 * Whether a host is `localhost` or a loopback address, and not a name such as
 * 127.0.0.1.evil.example.
 */
function isOfThisMachine(hostname: string): boolean {
  return hostname === 'localhost' || (isIP(hostname.replaceAll(/[[\]]/g, '')) !== 0 && isLoopback(hostname));
}

function checkedOrigin(text: string): string {
  const { origin, protocol } = URL.canParse(text) ? new URL(text) : { origin: '', protocol: '' };
  if (/^https?:$/.test(protocol) && (text === origin || text === `${origin}/`)) return origin;
  throw new UsageError(`"${text}" is not an origin such as https://class.example (http or https, without a path).`);
}
