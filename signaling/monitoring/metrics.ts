/**
 * Metrics of the server for Prometheus. They have their own registry, because other parts of a
 * process may have metrics, too.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { ClientMessage, RefusalCode } from '../../src/protocol/control.ts';

/**
 * Reasons for which an end of a link is refused. `not-allowed`: the room does not link these two
 * members. `alone`: the other end has not arrived in time.
 */
export type LinkRefusal =
  | 'silent'
  | 'bad-message'
  | 'bad-token'
  | 'too-many'
  | 'not-allowed'
  | 'alone'
  | 'replaced'
  | 'left'
  | 'server-closing';

/** Current numbers. */
interface Counts {
  rooms: number;
  connections: number;
  /** Number of connections that are in a room. */
  members: number;
  /** Number of links through the server. */
  serverLinks: number;
}

/**
 * Upper bounds of the buckets in seconds. Handling a message takes tens of microseconds; more than
 * a millisecond shows a problem.
 */
const HANDLING_BUCKETS = [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25];

export class Metrics {
  readonly #registry = new Registry();
  readonly #messages: Counter<'type'>;
  readonly #refusals: Counter<'code'>;
  readonly #upgradesRefused: Counter<'status'>;
  readonly #generations: Counter<'cause'>;
  readonly #signals: Counter;
  readonly #relayedBytes: Counter;
  readonly #linksRefused: Counter<'reason'>;
  readonly #linkBytes: Counter;
  readonly #processMessages: Counter<'direction'>;
  readonly #handling: Histogram;
  #hasDefaults = false;

  constructor(counts: () => Counts) {
    const registers = [this.#registry];
    const gauge = (name: string, help: string, key: keyof Counts): void => {
      const one = new Gauge({
        name: `peergrad_${name}`,
        help,
        registers: [],
        collect() {
          this.set(counts()[key]);
        },
      });
      this.#registry.registerMetric(one);
    };
    gauge('rooms', 'Rooms of this process', 'rooms');
    gauge('connections', 'Open WebSockets, without those of links', 'connections');
    gauge('members', 'WebSockets in a room', 'members');
    gauge('server_links', 'Links through this process', 'serverLinks');
    const counter = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
      new Counter({ name: `peergrad_${name}_total`, help, labelNames, registers });
    this.#messages = counter('messages', 'Valid messages received', ['type']);
    this.#refusals = counter('refusals', 'Refusals sent to tabs', ['code']);
    this.#upgradesRefused = counter('upgrades_refused', 'WebSockets refused before they opened', ['status']);
    this.#generations = counter('generations', 'Generations begun', ['cause']);
    this.#signals = counter('signals_relayed', 'Signals relayed to another member');
    this.#relayedBytes = counter('relayed_bytes', 'Bytes of relayed signals');
    this.#linksRefused = counter('server_links_refused', 'Ends of links that were refused', ['reason']);
    this.#linkBytes = counter('server_link_bytes', 'Bytes forwarded by links');
    this.#processMessages = counter('process_messages', 'Messages between processes that serve the same rooms', [
      'direction',
    ]);
    this.#handling = new Histogram({
      name: 'peergrad_message_handling_seconds',
      help: 'Time to handle a message; the time to enter a room is not included',
      buckets: HANDLING_BUCKETS,
      registers,
    });
  }

  received(type: ClientMessage['type']): void {
    this.#messages.inc({ type });
  }

  refused(code: RefusalCode): void {
    this.#refusals.inc({ code });
  }

  upgradeRefused(status: number): void {
    this.#upgradesRefused.inc({ status });
  }

  generationBegun(cause: string): void {
    this.#generations.inc({ cause });
  }

  relayed(bytes: number): void {
    this.#signals.inc();
    this.#relayedBytes.inc(bytes);
  }

  linkRefused(reason: LinkRefusal): void {
    this.#linksRefused.inc({ reason });
  }

  linkForwarded(bytes: number): void {
    this.#linkBytes.inc(bytes);
  }

  processMessage(direction: 'sent' | 'received'): void {
    this.#processMessages.inc({ direction });
  }

  handled(seconds: number): void {
    this.#handling.observe(seconds);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Returns all metrics in the text format of Prometheus, including the metrics of the process. */
  text(): Promise<string> {
    // The default metrics are created at the first request, because they observe the garbage
    // collector until the process ends.
    if (!this.#hasDefaults) collectDefaultMetrics({ register: this.#registry });
    this.#hasDefaults = true;
    return this.#registry.metrics();
  }
}
