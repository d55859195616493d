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
  /** Code of the room that it opened. */
  readonly room: string;
  /** Arguments for the served data, which a restart needs, too. */
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
   * Serves on a free port, with a room for the job that starts at `tabs` tabs. `folder` contains
   * the job's data, unless it is elsewhere.
   *
   * @throws (rejects) PeergradError if it does not start.
   */
  static async start(job: JobOptions, tabs: number, folder: string | null): Promise<ServerProcess> {
    const secret = randomBytes(SECRET_BYTES).toString('base64url');
    const args = ['--port', '0', '--start-at', String(tabs), ...jobArguments(job)];
    return new ServerProcess(await serve(args, secret), { secret, folder: folder === null ? [] : ['--data', folder] });
  }

  /** An error message if it has ended by itself, else `null`. */
  get problem(): string | null {
    return this.#server.problem();
  }

  /** Kills it without any clean-up. */
  async kill(): Promise<void> {
    await this.#server.kill();
  }

  /**
   * Restarts it after `kill`: on the same port, with the same secret and without a room.
   *
   * @throws (rejects) PeergradError if it does not start.
   */
  async restart(): Promise<void> {
    const args = ['--port', new URL(this.page).port, ...this.#folder];
    this.#server = await serve(args, this.#secret);
  }
}

interface Serving {
  /** URL that it printed: of the page, with the room if it has one. */
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
  // It must not outlive this process.
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
