/**
 * Relays UDP packets between tabs and a TURN server on this machine. It gives each tab a line with
 * limited rate, delay and loss. So tabs that may connect only through the TURN server are as far
 * apart as over the internet. All connections of a tab share its line: a connection belongs to the
 * member whose name is in its TURN user.
 */
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { Clock } from '../../src/util/clock.ts';
import { createRng, mixSeed } from '../../src/util/rng.ts';
import { directionsOf, type LineSpec } from './lines.ts';
import { OneWay } from './oneWay.ts';
import { turnUserOf } from './turnUser.ts';

const LOOPBACK = '127.0.0.1';
/** Bytes of the headers of Ethernet, IP and UDP, which a line also carries. */
const HEADER_BYTES = 42;
/** Size of socket buffers. It is large, so that packets are lost only on the simulated lines. */
const SOCKET_BYTES = 8 * 1024 * 1024;

interface Line {
  up: OneWay;
  down: OneWay;
}

/** A tab's socket for one connection. */
interface Flow {
  /** The socket that the TURN server sees. */
  socket: Socket;
  /** `null` until the tab has sent its TURN user. */
  user: string | null;
}

export class LineRelay {
  readonly #socket: Socket;
  readonly #turnPort: number;
  readonly #clock: Clock;
  readonly #seed: number;
  readonly #flows = new Map<string, Flow>();
  readonly #lines = new Map<string, Line>();
  #spec: LineSpec | null = null;

  private constructor(socket: Socket, { turnPort, clock, seed }: { turnPort: number; clock: Clock; seed: number }) {
    this.#socket = socket;
    this.#turnPort = turnPort;
    this.#clock = clock;
    this.#seed = seed;
    socket.on('message', (packet, from) => this.#fromTab(packet, from));
  }

  /** Starts a relay in front of the TURN server on this port. Packets are not delayed at first. */
  static async start(options: { turnPort: number; clock: Clock; seed: number }): Promise<LineRelay> {
    const socket = createSocket('udp4');
    socket.bind(0, LOOPBACK);
    await once(socket, 'listening');
    enlarge(socket);
    return new LineRelay(socket, options);
  }

  /** The port that tabs use as TURN server. */
  get port(): number {
    return this.#socket.address().port;
  }

  /** Gives all tabs new lines, or lines without limits if `spec` is `null`. */
  setLines(spec: LineSpec | null): void {
    for (const { up, down } of this.#lines.values()) for (const way of [up, down]) way.close();
    this.#lines.clear();
    this.#spec = spec;
  }

  /**
   * Over all lines: the number of packets that were lost at random, and the number of packets that
   * found a full queue.
   */
  get losses(): { lost: number; dropped: number } {
    const ways = [...this.#lines.values()].flatMap(({ up, down }) => [up.counts, down.counts]);
    return {
      lost: ways.reduce((sum, { lost }) => sum + lost, 0),
      dropped: ways.reduce((sum, { dropped }) => sum + dropped, 0),
    };
  }

  close(): void {
    this.setLines(null);
    this.#socket.close();
    for (const { socket } of this.#flows.values()) socket.close();
    this.#flows.clear();
  }

  #fromTab(packet: Buffer, from: RemoteInfo): void {
    const flow = this.#flowOf(from);
    // A later tab may have the port of an earlier one.
    flow.user = turnUserOf(packet) ?? flow.user;
    const deliver = (): void => flow.socket.send(packet, this.#turnPort, LOOPBACK);
    const line = this.#lineOf(flow.user);
    if (line) line.up.send(packet.length + HEADER_BYTES, deliver);
    else deliver();
  }

  #flowOf({ address, port }: RemoteInfo): Flow {
    const key = `${address} ${port}`;
    const known = this.#flows.get(key);
    if (known) return known;
    const flow: Flow = { socket: createSocket('udp4'), user: null };
    this.#flows.set(key, flow);
    // A packet that is sent before the socket is bound waits for it.
    flow.socket.bind(0, LOOPBACK, () => enlarge(flow.socket));
    flow.socket.on('message', (packet) => {
      const deliver = (): void => this.#socket.send(packet, port, address);
      const line = this.#lineOf(flow.user);
      if (line) line.down.send(packet.length + HEADER_BYTES, deliver);
      else deliver();
    });
    return flow;
  }

  /** Returns the line of a TURN user. The user's name ends with that of the member. */
  #lineOf(user: string | null): Line | null {
    if (user === null || this.#spec === null) return null;
    const member = user.slice(user.indexOf(':') + 1);
    const known = this.#lines.get(member);
    if (known) return known;
    const { up, down } = directionsOf(this.#spec);
    const seed = mixSeed(this.#seed, this.#lines.size);
    const line = {
      up: new OneWay(up, this.#clock, createRng(seed)),
      down: new OneWay(down, this.#clock, createRng(seed + 1)),
    };
    this.#lines.set(member, line);
    return line;
  }
}

function enlarge(socket: Socket): void {
  socket.setRecvBufferSize(SOCKET_BYTES);
  socket.setSendBufferSize(SOCKET_BYTES);
}
