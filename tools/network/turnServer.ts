/** Debian's TURN server coturn, on the loopback interface of this machine. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createSocket } from 'node:dgram';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { systemClock } from '../../src/util/clock.ts';
import { withinDeadline } from '../../src/util/deadline.ts';
import { createDeferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';

const COTURN = 'turnserver';
const LOOPBACK = '127.0.0.1';
const STOP_SIGNAL = 'SIGTERM';
/** Longest time in which coturn may start or end. */
const DEADLINE_MS = 10_000;

export class TurnServer {
  readonly port: number;
  /** Resolves with the exit code or the signal with which coturn has ended. */
  readonly ended: Promise<number | NodeJS.Signals>;
  readonly #process: ChildProcess;
  readonly #folder: string;
  /** Number of relayed addresses that the server has allocated. */
  allocations = 0;

  private constructor(port: number, process: ChildProcess, folder: string) {
    this.port = port;
    this.#process = process;
    this.#folder = folder;
    this.ended = once(process, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  }

  static isInstalled(): boolean {
    return spawnSync('which', [COTURN]).status === 0;
  }

  /**
   * Resolves when the server accepts connections.
   *
   * @param secret see coturn's `static-auth-secret`.
   * @throws (rejects) PeergradError if coturn is not installed, ends, or does not start in time.
   */
  static async start(secret: string): Promise<TurnServer> {
    if (!TurnServer.isInstalled()) {
      throw new PeergradError(`${COTURN} is not installed. On Debian, run: apt install coturn`);
    }
    const port = await freePort();
    const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-turn-'));
    const process = spawn(
      COTURN,
      [
        ...['-n', `--listening-ip=${LOOPBACK}`, `--relay-ip=${LOOPBACK}`, '--allow-loopback-peers'],
        ...[`--listening-port=${port}`, '--use-auth-secret', `--static-auth-secret=${secret}`, '--realm=peergrad'],
        ...['--fingerprint', '--no-cli', '--no-tls', '--no-dtls', '--log-file=stdout', '--simple-log', '--verbose'],
        ...[`--pidfile=${path.join(folder, 'pid')}`, `--userdb=${path.join(folder, 'users')}`],
      ],
      { stdio: ['ignore', 'pipe', 'ignore'] },
    );
    const server = new TurnServer(port, process, folder);
    const listening = createDeferred();
    createInterface(process.stdout).on('line', (line) => {
      if (line.includes('UDP listener opened')) listening.resolve();
      if (line.includes('ALLOCATE processed, success')) server.allocations += 1;
    });
    const ending = server.ended.then((how) => {
      throw new PeergradError(`${COTURN} has ended (${how}).`);
    });
    try {
      await inTime(Promise.race([listening.promise, ending]), 'start');
    } catch (error) {
      await server.#end();
      throw error;
    }
    return server;
  }

  /**
   * Ends coturn.
   *
   * @throws (rejects) PeergradError if coturn had already ended.
   */
  async stop(): Promise<void> {
    const hadEnded = this.#process.exitCode !== null || this.#process.signalCode !== null;
    const how = await this.#end();
    if (hadEnded || (how !== 0 && how !== STOP_SIGNAL))
      throw new PeergradError(`${COTURN} had ended before it was stopped (${how}).`);
  }

  /** Resolves with the exit code or the signal. */
  async #end(): Promise<number | NodeJS.Signals> {
    this.#process.kill(STOP_SIGNAL);
    try {
      return await inTime(this.ended, 'end');
    } finally {
      this.#process.kill('SIGKILL');
      await rm(this.#folder, { recursive: true });
    }
  }
}

function inTime<T>(promise: Promise<T>, what: string): Promise<T> {
  return withinDeadline(
    systemClock,
    DEADLINE_MS,
    promise,
    () => new PeergradError(`${COTURN} did not ${what} in time.`),
  );
}

async function freePort(): Promise<number> {
  const socket = createSocket('udp4');
  socket.bind(0, LOOPBACK);
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  return port;
}
