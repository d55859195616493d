/**
 * A signaling server in a process of its own, with a running room whose tabs are linked through it.
 */
import { LoadGenerator } from '../signaling/child.ts';
import { startRun, type JoinedMember } from '../signaling/members.ts';
import type { ServerCpu, ServerOptions, ServerReply } from '../signaling/serverProcess.ts';
import type { ServedRank } from './rank.ts';

export class ServedRoom {
  readonly #n: number;
  readonly #server: LoadGenerator;
  #members: readonly JoinedMember[] = [];

  /** @param n number of tabs. */
  constructor(n: number) {
    this.#n = n;
    const options: ServerOptions = { rooms: 1, startAt: n };
    this.#server = new LoadGenerator('./serverProcess.ts', JSON.stringify(options));
  }

  /** Resolves with the setup of each rank once the room runs. */
  async open(): Promise<ServedRank[]> {
    const { url: server, rooms } = await this.#server.next<ServerReply>();
    const [room] = rooms as [string];
    const { ranks } = await startRun(server, room, this.#n);
    this.#members = ranks;
    return ranks.map(({ token }) => ({ server, room, members: ranks.map(({ id }) => id), token }));
  }

  /** Resolves with the server's processor time since it began, milliseconds. */
  async cpuMs(): Promise<number> {
    return (await this.#server.ask<ServerCpu>({ type: 'cpu' })).cpuMs;
  }

  async close(): Promise<void> {
    for (const { member } of this.#members) member.leave();
    await this.#server.stop();
  }
}
