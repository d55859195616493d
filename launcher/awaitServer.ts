/** Waits until another machine's server answers. */
import http from 'node:http';
import https from 'node:https';
import type { Clock } from '../src/util/clock.ts';
import { errorReasonOf, TimeoutError } from '../src/util/errors.ts';
import { sleep } from './rejoin.ts';

/**
 * Milliseconds between the first two attempts to reach the server. The pause doubles after each
 * attempt, up to {@link LONGEST_PAUSE_MS}, because some machines start in seconds and others in
 * minutes.
 */
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 5_000;
/** Milliseconds to wait for one response of the server. */
const ANSWER_MS = 5_000;
/** Milliseconds between two reports about a server that does not answer. */
const REPORT_EVERY_MS = 5_000;
/** Later reports are rarer, because by then nobody watches and they only fill a log. */
const LATE_REPORT_EVERY_MS = 60_000;

/**
 * Explanations of connection errors, by error code. The causes of these errors are a wrong address,
 * a wrong port or a missing server.
 */
const EXPLANATIONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'no program listens on this port',
  ECONNRESET: 'the program on this port closes the connection',
  EPROTO: 'the program on this port does not use https',
  ENOTFOUND: 'no machine with this name was found',
  EAI_AGAIN: 'no machine with this name was found',
  EHOSTUNREACH: 'the machine cannot be reached',
  ENETUNREACH: 'the machine cannot be reached',
};

interface WaitOptions {
  clock: Clock;
  signal: AbortSignal;
  /** Reports that the server still does not answer, and the reason. */
  note: (line: string) => void;
}

/**
 * Resolves when the server at `url` (`https://host:port`) answers. The server's certificate is not
 * verified.
 *
 * @throws (rejects) TimeoutError after `timeoutMs`, or the reason of `signal` when it is aborted.
 */
export async function awaitServer(url: string, timeoutMs: number, { clock, signal, note }: WaitOptions): Promise<void> {
  const startedAt = clock.now();
  let reportAt = startedAt + REPORT_EVERY_MS;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    const problem = await problemOf(`${url}/healthz`, signal);
    if (problem === null) return;
    signal.throwIfAborted();
    const now = clock.now();
    const waited = now - startedAt;
    if (waited >= timeoutMs) {
      throw new TimeoutError(
        `No server answered at ${url} within ${timeoutMs / 1000} s: ${problem}. Start the process that has rank 0, or check the address and port.`,
      );
    }
    if (now >= reportAt) {
      note(`The server at ${url} has not answered for ${Math.round(waited / 1000)} s: ${problem}. Still trying.`);
      reportAt = now + (waited < LATE_REPORT_EVERY_MS ? REPORT_EVERY_MS : LATE_REPORT_EVERY_MS);
    }
    await sleep(clock, Math.min(pause, timeoutMs - waited), signal);
  }
}

/** Resolves with the reason why no peergrad server answers; `null` if one does. */
function problemOf(url: string, signal: AbortSignal): Promise<string | null> {
  const { get } = url.startsWith('https:') ? https : http;
  return new Promise((resolve) => {
    const options = { timeout: ANSWER_MS, rejectUnauthorized: false, agent: false, signal } as const;
    const request = get(url, options, (response) => {
      response.resume();
      const { statusCode } = response;
      resolve(statusCode === 200 ? null : `the program on this port answers with the HTTP status ${statusCode}`);
    });
    request.on('timeout', () => request.destroy(new Error(`there was no response within ${ANSWER_MS / 1000} s`)));
    request.on('error', (error: NodeJS.ErrnoException) =>
      resolve(EXPLANATIONS[error.code ?? ''] ?? errorReasonOf(error)),
    );
  });
}
