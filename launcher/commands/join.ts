/** `peergrad join`: headless tabs of this machine in somebody else's room. */
import { stat } from 'node:fs/promises';
import { parseRoomCode } from '../../src/protocol/roomCode.ts';
import { PeergradError, UsageError } from '../../src/util/errors.ts';
import { attend, type GivenData } from '../attendance.ts';
import type { BackendMode, GpuMode } from '../browser/browser.ts';
import { ensureBrowser } from '../browser/findBrowser.ts';
import type { Io } from '../io.ts';
import { rankOfJoin, type Environment } from '../options/placement.ts';
import { disagreement, summarize } from '../output/report.ts';

export interface JoinOptions {
  tabs: number;
  name: string;
  /** A file or folder, for rooms whose tabs bring theirs. */
  data?: string;
  /** Run after run, until the host sends it out. */
  stay?: true;
  browser?: string;
  backend: BackendMode;
  gpu: GpuMode;
  /** Seconds; left out, it has all the time. */
  timeout?: number;
}

/** Longest name the protocol takes, less room for "-64". */
const MAX_NAME = 36;

export async function join(address: string, options: JoinOptions, io: Io, env: Environment): Promise<void> {
  const { page, room } = parseRoomUrl(address);
  const rank = rankOfJoin(options.tabs, env);
  const name = options.name.trim();
  if (name === '' || name.length > MAX_NAME)
    throw new UsageError(`A name has 1 to ${MAX_NAME} characters: see --name.`);
  const data = options.data === undefined ? null : await givenData(options.data);
  const tabs = Array.from({ length: options.tabs }, (_, i) => {
    const own = options.tabs === 1 ? name : `${name}-${i + 1}`;
    const asked = rank === null ? '' : `&rank=${rank}`;
    return { name: own, url: `${page}#${room}?name=${encodeURIComponent(own)}&auto${asked}` };
  });
  const partings = await attend(
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
  const results = partings.flatMap((parting) => (parting.kind === 'finished' ? [parting.result] : []));
  if (results.length > 0) {
    const differ = disagreement(results);
    if (differ !== null) throw new PeergradError(differ);
    // Among JSON lines it has been told.
    if (io.tell === undefined) io.out(summarize(results[0]!));
    return;
  }
  const ended = partings.find(({ kind }) => kind === 'ended');
  // Who was sent out has said so, and has nothing to add.
  if (ended?.kind === 'ended') throw new PeergradError(ended.message);
}

/** @throws (rejects) UsageError where nothing is there. */
async function givenData(path: string): Promise<GivenData> {
  const found = await stat(path).catch(() => {
    throw new UsageError(`The data ${path} cannot be read: give a file or a folder.`);
  });
  return { path, isFolder: found.isDirectory() };
}

/** Splits a room's link. @throws UsageError where it is not one. */
export function parseRoomUrl(address: string): { page: string; room: string } {
  const url = URL.canParse(address) ? new URL(address) : null;
  const room = url === null ? null : parseRoomCode(decodeHash(url).split('?', 1)[0]!);
  if (url === null || !/^https?:$/.test(url.protocol) || room === null) {
    throw new UsageError(`"${address}" is not a room's address such as https://192.168.1.5:8080/#K7F3QX.`);
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
