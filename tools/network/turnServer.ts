/** Debian's TURN server coturn, on the loopback interface of this machine. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createSocket } from 'node:dgram';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { deferred } from '../../src/util/deferred.ts';
import { PeergradError } from '../../src/util/errors.ts';

const COTURN = 'turnserver';
const LOOPBACK = '127.0.0.1';

export class TurnServer {
  readonly port: number;
  readonly #process: ChildProcess;
  readonly #folder: string;
  /** Number of relayed addresses that the server has allocated. */
  allocations = 0;

  private constructor(port: number, process: ChildProcess, folder: string) {
    this.port = port;
    this.#process = process;
    this.#folder = folder;
  }

  static isInstalled(): boolean {
    return spawnSync('which', [COTURN]).status === 0;
  }

  /**
   * Resolves when the server accepts connections.
   *
   * @param secret see coturn's `static-auth-secret`.
   * @throws (rejects) PeergradError if coturn is not installed or ends.
   */
  static async start(secret: string): Promise<TurnServer> {
    if (!TurnServer.isInstalled()) {
      throw new PeergradError(`${COTURN} is not installed. On Debian, run: apt install coturn`);
    }
    const folder = await mkdtemp(path.join(tmpdir(), 'peergrad-turn-'));
    const port = await freePort();
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
    const listening = deferred();
    createInterface(process.stdout).on('line', (line) => {
      if (line.includes('UDP listener opened')) listening.resolve();
      if (line.includes('ALLOCATE processed, success')) server.allocations += 1;
    });
    process.once('exit', (code) => listening.reject(new PeergradError(`${COTURN} has ended with code ${code}.`)));
    await listening.promise;
    return server;
  }

  async stop(): Promise<void> {
    this.#process.kill();
    if (this.#process.exitCode === null) await once(this.#process, 'exit');
    await rm(this.#folder, { recursive: true });
  }
}

async function freePort(): Promise<number> {
  const socket = createSocket('udp4');
  socket.bind(0, LOOPBACK);
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  return port;
}
