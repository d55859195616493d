/**
 * Two signaling processes share Redis and one address. While real tabs train, the process that owns
 * their room is killed. Their links are direct, or go through the two processes.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { EventOf } from '../../../src/protocol/events.ts';
import { hasRedis, RedisServer } from '../../signaling/cluster/redisServer.ts';
import { type Tab, World } from '../harness/world.ts';

vi.setConfig({ testTimeout: 150_000 });

const BIN = path.resolve(import.meta.dirname, '../../../launcher/bin.js');

/** A process that runs `peergrad serve`. */
class Serve {
  readonly origin: string;
  /** The code of the room that this process opened, or an empty string. */
  readonly room: string;
  readonly #process: ChildProcess;

  private constructor(link: string, child: ChildProcess) {
    const { origin, hash } = new URL(link);
    this.origin = origin;
    this.room = hash.slice(1);
    this.#process = child;
  }

  static async start(redis: RedisServer, ...args: string[]): Promise<Serve> {
    const child = spawn(process.execPath, [BIN, 'serve', '--port', '0', ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, REDIS_URL: redis.url },
    });
    for await (const link of createInterface(child.stdout)) return new Serve(link, child);
    throw new Error(`The command serve ${args.join(' ')} ended before its server was ready.`);
  }

  get port(): number {
    return Number(new URL(this.origin).port);
  }

  async health(): Promise<{ rooms: number; connections: number }> {
    return (await (await fetch(`${this.origin}/healthz`)).json()) as { rooms: number; connections: number };
  }

  /** Resolves with the number of links that have an end in this process. */
  async links(): Promise<number> {
    const metrics = await (await fetch(`${this.origin}/metrics`)).text();
    return Number(/^peergrad_server_links (.*)$/m.exec(metrics)?.[1]);
  }

  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await exited;
  }
}

/**
 * A load balancer in front of the processes: distributes connections round-robin, or always to the
 * first process, and skips a process that refuses them.
 */
class Balancer {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #turn = 0;

  private constructor(ports: readonly number[], isRoundRobin: boolean) {
    this.#server = createServer((client) => {
      this.#track(client);
      // The order of processes is fixed per client when it connects. With one shared counter,
      // simultaneous clients could try the dead process twice.
      const turn = isRoundRobin ? this.#turn++ : 0;
      this.#pass(
        client,
        ports.map((_, i) => ports[(turn + i) % ports.length]!),
      );
    });
  }

  static async start(ports: readonly number[], isRoundRobin = true): Promise<Balancer> {
    const balancer = new Balancer(ports, isRoundRobin);
    balancer.#server.listen(0, '127.0.0.1');
    await once(balancer.#server, 'listening');
    return balancer;
  }

  get origin(): string {
    return `http://localhost:${(this.#server.address() as AddressInfo).port}`;
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
  }

  /** Connects the client to the first of `ports` that accepts a connection. */
  #pass(client: Socket, [port, ...others]: readonly number[]): void {
    if (port === undefined) return void client.destroy();
    const upstream = connect(port, '127.0.0.1');
    this.#track(upstream);
    let isThrough = false;
    upstream.on('connect', () => {
      isThrough = true;
      client.pipe(upstream).pipe(client);
      client.on('close', () => upstream.destroy());
    });
    upstream.on('close', () => {
      if (isThrough) client.destroy();
      else this.#pass(client, others);
    });
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

function steps(tab: Tab): number[] {
  return tab.events.filter((event) => event.type === 'step').map(({ step }) => step);
}

function times(tab: Tab, type: 'admitted' | 'generation'): number {
  return tab.events.filter((event) => event.type === type).length;
}

/** Resolves after five further steps of the tab. A newcomer may not have completed a step yet. */
async function goesOn(tab: Tab): Promise<void> {
  const soon = steps(tab).length + 5;
  await tab.event('step', () => steps(tab).length >= soon);
}

describe.skipIf(!hasRedis)('two signaling processes', () => {
  let world: World;
  const open: (() => Promise<void> | void)[] = [];
  beforeAll(async () => {
    world = await World.start();
    open.push(() => world.stop());
  }, 120_000);
  afterEach(() => world.reset());
  afterAll(async () => {
    while (open.length > 0) await open.pop()!();
  });

  /** Starts two processes, of which the first opens a room. */
  async function start(startAt: number, ...args: string[]) {
    const redis = await RedisServer.start();
    open.push(() => redis.stop());
    const job = ['--job', 'digits', '--start-at', `${startAt}`, '--batch', '8', '--epochs', '100', '--hash-every', '5'];
    const owner = await Serve.start(redis, ...job, ...args);
    open.push(() => owner.kill());
    const other = await Serve.start(redis, ...args);
    open.push(() => other.kill());
    const balance = async (ports: readonly number[], isRoundRobin: boolean): Promise<string> => {
      const balancer = await Balancer.start(ports, isRoundRobin);
      open.push(() => balancer.stop());
      return balancer.origin;
    };
    return { owner, other, balance };
  }

  test('when the owner of the room is killed, training loses no step, and a fifth tab joins through the other process', async () => {
    const { owner, other, balance } = await start(4);
    const origin = await balance([owner.port, other.port], true);
    const tabs = await Promise.all([0, 1, 2, 3].map((i) => world.join(owner.room, `tab-${i}`, { origin })));
    await Promise.all(tabs.map((tab) => tab.event('step', ({ step }) => step === 5)));
    // Both processes have connections from tabs, so some signals were sent through Redis.
    expect((await owner.health()).connections).toBeGreaterThan(0);
    expect(await other.health()).toMatchObject({ rooms: 0 });
    expect((await other.health()).connections).toBeGreaterThan(0);

    await owner.kill();
    await Promise.all(tabs.map(goesOn));
    await vi.waitFor(() => expect(tabs.map((tab) => times(tab, 'admitted'))).toEqual([2, 2, 2, 2]), 40_000);
    expect(await other.health()).toMatchObject({ rooms: 1, connections: 4 });
    await Promise.all(tabs.map(goesOn));
    // All tabs are still in their first generation.
    expect(tabs.map((tab) => times(tab, 'generation'))).toEqual([1, 1, 1, 1]);

    // The fifth tab is the first of `all`, because its failures have the most useful messages.
    const fifth = await world.join(owner.room, 'fifth', { origin });
    const all = [fifth, ...tabs];
    // Four tabs train at the same time and slow the fifth one down, so each wait has its own
    // deadline.
    await fifth.event('device');
    await Promise.all(all.map((tab) => tab.event('generation', ({ worldSize }) => worldSize === 5)));
    await Promise.all(all.map((tab) => tab.event('hashes', ({ hashes, agree }) => hashes.length === 5 && agree)));
    await Promise.all(all.map(goesOn));
    // When the fifth tab joins, it may interrupt a step on some ranks. They receive the result of
    // that step without a step event.
    for (const tab of all) expect(steps(tab)).toEqual([...new Set(steps(tab))].sort((a, b) => a - b));
    const emitted = [...new Set(all.flatMap(steps))].sort((a, b) => a - b);
    expect(emitted).toEqual(emitted.map((_, step) => step));
    expect(tabs.map((tab) => steps(tab)[0])).toEqual([0, 0, 0, 0]);
  });

  test('when a process through which links go to the other process is killed, training loses no step', async () => {
    const { owner, other, balance } = await start(3, '--server-links', 'only');
    const [first, second] = [
      await balance([owner.port, other.port], false),
      await balance([other.port, owner.port], false),
    ];
    const origins = [first, first, second];
    const tabs = await Promise.all(origins.map((origin, i) => world.join(owner.room, `tab-${i}`, { origin })));
    await Promise.all(tabs.map(goesOn));
    // Two of the three links are between the processes, and count in both.
    expect([await owner.links(), await other.links()]).toEqual([3, 2]);

    const killedAt = Math.max(...tabs.flatMap(steps));
    await owner.kill();
    await vi.waitFor(() => expect(tabs.map((tab) => times(tab, 'admitted'))).toEqual([2, 2, 2]), 40_000);
    await Promise.all(tabs.map(goesOn));
    expect(await other.health()).toMatchObject({ rooms: 1, connections: 3 });
    expect(await other.links()).toBe(3);
    const compared = ({ step, agree }: EventOf<'hashes'>): boolean => step > killedAt && agree;
    await Promise.all(tabs.map((tab) => tab.event('hashes', compared)));
    for (const tab of tabs) expect(steps(tab)).toEqual([...new Set(steps(tab))].sort((a, b) => a - b));
    const emitted = [...new Set(tabs.flatMap(steps))].sort((a, b) => a - b);
    expect(emitted).toEqual(emitted.map((_, step) => step));
  });
});
