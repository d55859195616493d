/** Waits until another machine's server answers. */
import http from 'node:http';
import https from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../src/util/clock.ts';
import { TimeoutError } from '../src/util/errors.ts';

/**
 * First and longest pause between two attempts, in milliseconds. The pause doubles after each
 * attempt, because machines start within seconds or minutes.
 */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;
/** Milliseconds to wait for one response. */
const ANSWER_MS = 5_000;

/**
 * Resolves when the server at `url` (`https://host:port`) answers. The server's certificate is not
 * verified.
 *
 * @throws (rejects) TimeoutError after `timeoutMs`, or the reason of `signal` when it is aborted.
 */
export async function awaitServer(url: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const giveUpAt = systemClock.now() + timeoutMs;
  for (
    let pause = FIRST_PAUSE_MS;
    !(await answers(`${url}/healthz`, signal));
    pause = Math.min(2 * pause, LONGEST_PAUSE_MS)
  ) {
    const rest = giveUpAt - systemClock.now();
    if (rest <= 0) {
      throw new TimeoutError(
        `No server answered at ${url} within ${timeoutMs / 1000} s. Start the process with rank 0, or check the address and port.`,
      );
    }
    await sleep(Math.min(pause, rest), undefined, { signal });
  }
}

/** Resolves with whether a peergrad server answers. */
function answers(url: string, signal: AbortSignal): Promise<boolean> {
  const { get } = url.startsWith('https:') ? https : http;
  return new Promise((resolve) => {
    const options = { timeout: ANSWER_MS, rejectUnauthorized: false, agent: false, signal } as const;
    const request = get(url, options, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
  });
}
