/** `peergrad serve` as a separate process, which can be killed. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { PeergradError } from '../../src/util/errors.ts';
import { type JobOptions, jobArguments } from '../../launcher/options/jobOptions.ts';
import { parseRoomUrl } from '../../launcher/commands/join.ts';

const BIN = fileURLToPath(new URL('../../launcher/bin.js', import.meta.url));
/** Bytes of the secret that signs the server's tokens. */
const SECRET_BYTES = 32;

export class ServerProcess {
  /** URL of the page. */
  readonly page: string;
  /** Code of the room that the server opened. */
  readonly room: string;
  /** Arguments for the served data. They are needed again for a restart. */
  readonly #folder: string[];
  readonly #secret: string;
  #server: Serving;

  private constructor(server: Serving, fixed: { secret: string; folder: string[] }) {
    ({ page: this.page, room: this.room } = parseRoomUrl(server.address));
    this.#server = server;
    this.#secret = fixed.secret;
    this.#folder = fixed.folder;
  }

  /**
   * Starts a server on a free port. The server opens a room for the job, and the run starts when
   * `tabs` tabs are ready. `folder` contains the job's data; `null` if the server need not serve
   * data.
   *
   * @throws (rejects) PeergradError if the server does not start.
   */
  static async start(job: JobOptions, tabs: number, folder: string | null): Promise<ServerProcess> {
    const secret = randomBytes(SECRET_BYTES).toString('base64url');
    const args = ['--port', '0', '--start-at', String(tabs), ...jobArguments(job)];
    return new ServerProcess(await serve(args, secret), { secret, folder: folder === null ? [] : ['--data', folder] });
  }

  /** An error message if the server has ended by itself, otherwise `null`. */
  get problem(): string | null {
    return this.#server.problem();
  }

  /** Kills the server without any clean-up. */
  async kill(): Promise<void> {
    await this.#server.kill();
  }

  /**
   * Restarts the server after `kill`: on the same port, with the same secret and without a room.
   *
   * @throws (rejects) PeergradError if the server does not start.
   */
  async restart(): Promise<void> {
    const args = ['--port', new URL(this.page).port, ...this.#folder];
    this.#server = await serve(args, this.#secret);
  }
}

interface Serving {
  /**
   * The URL of the page, as the server printed it. It contains the room's code if the server opened
   * a room.
   */
  address: string;
  problem: () => string | null;
  /** Idempotent. */
  kill: () => Promise<void>;
}

async function serve(args: string[], secret: string): Promise<Serving> {
  const child = spawn(process.execPath, [BIN, 'serve', '--log', 'error', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, PEERGRAD_SECRET: secret },
  });
  const ended = once(child, 'exit');
  const killNow = (): void => void child.kill('SIGKILL');
  // The server must not outlive this process.
  process.once('exit', killNow);
  let lastLine = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (lastLine = text.trim()));
  const line = once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>;
  const first = await Promise.race([line, ended.then(() => null)]);
  if (first === null) throw new PeergradError(`The server did not start: ${lastLine}`);
  let isKilled = false;
  let problem: string | null = null;
  child.once('exit', () => {
    process.off('exit', killNow);
    if (!isKilled) problem = `The server ended unexpectedly: ${lastLine}`;
  });
  return {
    address: first[0],
    problem: () => problem,
    async kill() {
      isKilled = true;
      killNow();
      await ended;
    },
  };
}
