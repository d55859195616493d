/** `peergrad join`: headless tabs of this machine in somebody else's room. */
import { parseRoomCode } from '../src/protocol/roomCode.ts';
import { UsageError } from '../src/util/errors.ts';
import { ensureBrowser } from './findBrowser.ts';
import type { Io } from './io.ts';
import { NOTHING_KEPT } from './keeper.ts';
import type { GpuMode } from './browser.ts';
import { rankOfJoin, type Environment } from './placement.ts';
import { summarize } from './report.ts';
import { trainInTabs } from './session.ts';

export interface JoinOptions {
  tabs: number;
  name: string;
  browser?: string;
  gpu: GpuMode;
  /** Seconds. */
  timeout: number;
}

/** Longest name the protocol takes, less room for "-64". */
const MAX_NAME = 36;

export async function join(address: string, options: JoinOptions, io: Io, env: Environment): Promise<void> {
  const { page, room } = parseRoomUrl(address);
  const rank = rankOfJoin(options.tabs, env);
  const name = options.name.trim();
  if (name === '' || name.length > MAX_NAME)
    throw new UsageError(`A name has 1 to ${MAX_NAME} characters: see --name.`);
  const tabs = Array.from({ length: options.tabs }, (_, i) => {
    const own = options.tabs === 1 ? name : `${name}-${i + 1}`;
    const asked = rank === null ? '' : `&rank=${rank}`;
    return { name: own, url: `${page}#${room}?name=${encodeURIComponent(own)}&auto${asked}` };
  });
  const result = await trainInTabs(
    {
      executable: await ensureBrowser(options.browser, io.err),
      gpu: options.gpu,
      headed: false,
      probeUrl: new URL('/healthz', page).href,
      remote: true,
      anyCertificate: true,
      tabs,
      timeoutMs: options.timeout * 1000,
      waitsForOthers: true,
      mayLoseTabs: true,
      screenshot: null,
      kept: NOTHING_KEPT,
      origin: null,
    },
    io,
  );
  io.out(summarize(result));
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
