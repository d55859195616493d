/**
 * The processes through which tabs are linked if they use no direct connections: a signaling server
 * with a running room, and a bare relay.
 */
import { LoadGenerator } from '../signaling/child.ts';
import { startRun, type JoinedMember } from '../signaling/relay.ts';
import type { ServerOptions, ServerReply } from '../signaling/serverProcess.ts';
import type { ServerCpu, ServerMemory } from '../signaling/usage.ts';
import type { ServedRank } from './rank.ts';

/** Use of this machine by one process. */
export interface RelayUse {
  /** Processor time since the process began, milliseconds. */
  cpuMs: number;
  /** Resident memory before tabs were linked, and the largest since the process began, bytes. */
  idleRss: number;
  peakRss: number;
}

export class Relays {
  readonly #n: number;
  readonly #server: LoadGenerator;
  readonly #bare = new LoadGenerator('./bareRelay.ts');
  #members: readonly JoinedMember[] = [];
  #idle: readonly ServerMemory[] = [];

  /** @param n number of tabs. */
  constructor(n: number) {
    this.#n = n;
    this.#server = new LoadGenerator(
      './serverProcess.ts',
      JSON.stringify({ rooms: 1, startAt: n } satisfies ServerOptions),
    );
  }

  get #processes(): LoadGenerator[] {
    return [this.#server, this.#bare];
  }

  /** Resolves with the setup of each rank once the room runs. */
  async open(): Promise<ServedRank[]> {
    const [{ url: server, rooms }, { url: relay }] = await Promise.all([
      this.#server.next<ServerReply>(),
      this.#bare.next<{ url: string }>(),
    ]);
    this.#idle = await Promise.all(this.#processes.map((one) => one.ask<ServerMemory>({})));
    const [room] = rooms as [string];
    const { ranks } = await startRun(server, room, this.#n);
    this.#members = ranks;
    return ranks.map(({ token }) => ({ server, room, members: ranks.map(({ id }) => id), token, relay }));
  }

  /** Resolves with the use of the signaling server and of the bare relay. */
  async use(): Promise<{ server: RelayUse; bare: RelayUse }> {
    const cpu = await Promise.all(this.#processes.map((one) => one.ask<ServerCpu>({ type: 'cpu' })));
    const [server, bare] = cpu.map((use, i) => ({ ...use, idleRss: this.#idle[i]!.rss }));
    return { server: server!, bare: bare! };
  }

  async close(): Promise<void> {
    for (const { member } of this.#members) member.leave();
    await Promise.all(this.#processes.map((one) => one.stop()));
  }
}
