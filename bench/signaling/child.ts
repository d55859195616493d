/**
 * A child process of a benchmark. It runs TypeScript, can start a garbage collection, and answers
 * one request at a time.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { PeergradError } from '../../src/util/errors.ts';

export class LoadGenerator {
  readonly #process: ChildProcess;
  readonly #gone: Promise<never>;
  /** Output of the process on stderr. */
  stderr = '';

  /** @param module the script, relative to this file or an absolute URL. */
  constructor(module: string, ...args: readonly string[]) {
    const file = fileURLToPath(new URL(module, import.meta.url));
    this.#process = fork(file, args, {
      execArgv: ['--expose-gc', '--import', import.meta.resolve('tsx')],
      stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    });
    this.#process.stderr!.on('data', (data: Buffer) => (this.stderr += data.toString()));
    this.#gone = once(this.#process, 'exit').then(([code, signal]) => {
      const how = signal === null ? `exit code ${String(code)}` : String(signal);
      throw new PeergradError(`The process ${module} has ended (${how}). Its output: ${this.stderr.slice(-2000)}`);
    });
    this.#gone.catch(() => {});
  }

  /**
   * Resolves with the next message of the process. @throws (rejects) PeergradError if it exits
   * instead.
   */
  async next<Answer>(): Promise<Answer> {
    const [answer] = (await Promise.race([once(this.#process, 'message'), this.#gone])) as [Answer];
    return answer;
  }

  ask<Answer>(question: object): Promise<Answer> {
    const answer = this.next<Answer>();
    this.#process.send(question);
    return answer;
  }

  /** Kills the process, as if it crashed. Resolves when it has ended. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#gone.catch(() => {});
  }
}
