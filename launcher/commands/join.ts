/** `peergrad join`: joins a room with headless tabs of this machine. */
import { stat } from 'node:fs/promises';
import { parseRoomCode } from '../../src/protocol/roomCode.ts';
import { PeergradError, UsageError } from '../../src/util/errors.ts';
import type { GpuKernelChoice } from '../../src/spec/names.ts';
import { joinTabs, type TabData } from '../joinTabs.ts';
import type { BackendMode, GpuMode } from '../browser/browser.ts';
import { ensureBrowser } from '../browser/findBrowser.ts';
import type { Io } from '../io.ts';
import { rankOfJoin, type Environment } from '../options/placement.ts';
import { disagreement, summarize } from '../output/report.ts';

export interface JoinOptions {
  tabs: number;
  name: string;
  /** File or folder with the tabs' own data, for rooms in which each tab has its own. */
  data?: string;
  /** Whether the tabs stay for later runs. */
  stay?: true;
  browser?: string;
  backend: BackendMode;
  gpu: GpuMode;
  kernels: GpuKernelChoice;
  /** Timeout in seconds; `undefined`: no limit. */
  timeout?: number;
}

/**
 * Maximum number of characters of this machine's name. The name of a tab is this name and a number
 * such as "-64", and must not exceed the limit of the protocol.
 */
const MAX_NAME = 36;

/**
 * Shortens a name in its middle, because names of machines differ at the beginning (in one domain)
 * or at the end (names of pods).
 */
export function shortened(name: string): string {
  if (name.length <= MAX_NAME) return name;
  const half = Math.floor((MAX_NAME - 1) / 2);
  // If the cut splits a character of two code units, the part that is left is removed.
  return `${name.slice(0, half)}…${name.slice(-half)}`.replaceAll(/\p{Surrogate}/gu, '');
}

export async function join(address: string, options: JoinOptions, io: Io, env: Environment): Promise<void> {
  const { page, room } = parseRoomUrl(address);
  const rank = rankOfJoin(options.tabs, env);
  const name = shortened(options.name.trim());
  if (name === '') throw new UsageError('The name is empty. Pass --name with at least one character.');
  if (name !== options.name.trim())
    io.err(`The name is longer than ${MAX_NAME} characters. It is shortened to ${name}.`);
  const data = options.data === undefined ? null : await readTabData(options.data);
  const tabs = Array.from({ length: options.tabs }, (_, i) => {
    const tabName = options.tabs === 1 ? name : `${name}-${i + 1}`;
    const request = rank === null ? '' : `&rank=${rank}`;
    return {
      name: tabName,
      url: `${page}#${room}?name=${encodeURIComponent(tabName)}&auto${request}&kernels=${options.kernels}`,
    };
  });
  const outcomes = await joinTabs(
    {
      executable: await ensureBrowser(options.browser, io.err),
      backend: options.backend,
      gpu: options.gpu,
      probeUrl: new URL('/healthz', page).href,
      remote: true,
      anyCertificate: true,
      tabs,
      data,
      stays: options.stay ?? false,
      timeoutMs: options.timeout === undefined ? null : options.timeout * 1000,
      origin: new URL(page).origin,
    },
    io,
  );
  const results = outcomes.flatMap((outcome) => (outcome.kind === 'finished' ? [outcome.result] : []));
  if (results.length > 0) {
    const differ = disagreement(results);
    if (differ !== null) throw new PeergradError(differ);
    // With JSON lines, the log already contains the result.
    if (io.logEvent === undefined) io.out(summarize(results[0]!));
    return;
  }
  const ended = outcomes.find(({ kind }) => kind === 'ended');
  // If the host removed the tabs, the log already contains that.
  if (ended?.kind === 'ended') throw new PeergradError(ended.message);
}

/** @throws (rejects) UsageError if the path cannot be read. */
async function readTabData(path: string): Promise<TabData> {
  const found = await stat(path).catch(() => {
    throw new UsageError(`The data ${path} cannot be read. Pass a file or a folder with --data.`);
  });
  return { path, isFolder: found.isDirectory() };
}

/**
 * Splits a room's URL into page and room.
 *
 * @throws UsageError if it is not the URL of a room.
 */
export function parseRoomUrl(address: string): { page: string; room: string } {
  const url = URL.canParse(address) ? new URL(address) : null;
  const room = url === null ? null : parseRoomCode(decodeHash(url).split('?', 1)[0]!);
  if (url === null || !/^https?:$/.test(url.protocol) || room === null) {
    throw new UsageError(
      `"${address}" is not the address of a room. Pass one such as https://192.168.1.5:8080/#K7F3QX.`,
    );
  }
  return { page: `${url.origin}${url.pathname}`, room };
}

function decodeHash({ hash }: URL): string {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return '';
  }
}
