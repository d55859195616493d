/**
 * Reads and writes the address of the page. The page and its settings are in the hash, for two
 * reasons: one static file is enough for every page, and a room code never appears in the log of a
 * server. `#` is the home page, `#new` starts a room, `#lesson` is the lesson alone, `#pipeline`
 * the lesson about pipelines, `#network` checks the network, `#recording` shows recordings,
 * `#simulated?ranks=32` is a simulated run, and `#K7F-3QX?name=Ada&auto&rank=2&kernels=stock` joins
 * a room. Each page reads its settings after the question mark, so a link can have all settings of
 * a page.
 */
import { formatRoomCode, parseRoomCode } from '../../protocol/roomCode.ts';
import { GPU_KERNEL_CHOICES, type GpuKernelChoice } from '../../spec/names.ts';

/** Pages whose name is their address. */
const PAGES = ['new', 'lesson', 'pipeline', 'network', 'recording', 'simulated'] as const;

export interface PageRoute {
  page: 'home' | 'join' | (typeof PAGES)[number];
  /** The room to join, on the join page. */
  room: string | null;
  /** The name of the user, which launchers and prepared links set. */
  name: string | null;
  /** The requested rank. It is NaN if it is not an integer, and the server then rejects it. */
  rank: number | null;
  /** Kernels of this tab's WebGPU device. */
  kernels: GpuKernelChoice;
  /** Whether to join without a click. */
  auto: boolean;
  /** The text that the address has instead of a valid room code; `null` without such a text. */
  wrongCode: string | null;
  /** All settings after the question mark. */
  query: URLSearchParams;
}

export function parsePageRoute(hash: string): PageRoute {
  const text = hash.replace(/^#\/?/, '');
  const cut = text.indexOf('?');
  const place = decode(cut < 0 ? text : text.slice(0, cut)).trim();
  const query = new URLSearchParams(cut < 0 ? '' : text.slice(cut + 1));
  const name = query.get('name')?.trim().slice(0, MAX_MEMBER_NAME_LENGTH) ?? '';
  const rank = query.get('rank');
  const common = {
    name: name === '' ? null : name,
    rank: rank === null ? null : wholeNumber(rank),
    kernels: GPU_KERNEL_CHOICES.find((choice) => choice === query.get('kernels')) ?? 'own',
    auto: query.has('auto'),
    query,
  };
  if (place === '') return { page: 'home', room: null, wrongCode: null, ...common };
  const page = PAGES.find((each) => each === place);
  if (page !== undefined) return { page, room: null, wrongCode: null, ...common };
  const room = parseRoomCode(place);
  if (room === null) return { page: 'home', room: null, wrongCode: place, ...common };
  return { page: 'join', room, wrongCode: null, ...common };
}

/** Longest name that the signaling server accepts. */
export const MAX_MEMBER_NAME_LENGTH = 40;

export function roomAddressHash(room: string): string {
  return `#${formatRoomCode(room)}`;
}

/** Returns `hash` with changed settings. `null` removes a setting. */
export function hashWithSettings(hash: string, changes: Readonly<Record<string, string | null>>): string {
  const cut = hash.indexOf('?');
  const place = cut < 0 ? hash || '#' : hash.slice(0, cut);
  const query = new URLSearchParams(cut < 0 ? '' : hash.slice(cut + 1));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  // A flag is written as a name without a value.
  const text = query.toString().replaceAll(/=(?=&|$)/g, '');
  return text === '' ? place : `${place}?${text}`;
}

/**
 * Settings of the appearance, which apply to all pages: language, theme, size of letters, hidden
 * parts, and speed of players.
 */
const VIEW_SETTINGS = ['lang', 'theme', 'size', 'hide', 'speed'] as const;
/** Settings that links to every page may have. */
export const ADDRESS_SETTINGS_OF_ALL_PAGES: readonly string[] = ['name', 'rank', 'kernels', 'auto', ...VIEW_SETTINGS];

export function viewSettingsFromQuery(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries(
    VIEW_SETTINGS.flatMap((name) => {
      const value = query.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
}

/** Parts of the pages that a link can hide, for example for a class. */
export const HIDEABLE_PAGE_PARTS = ['job', 'player', 'grid', 'curves', 'timeline', 'ranks', 'inspection'] as const;
export type HideablePagePart = (typeof HIDEABLE_PAGE_PARTS)[number];

/** Returns the parts that a setting such as `hide=grid,ranks` hides. Unknown names are ignored. */
export function pagePartsHiddenInQuery(query: URLSearchParams): ReadonlySet<HideablePagePart> {
  const named = new Set((query.get('hide') ?? '').split(','));
  return new Set(HIDEABLE_PAGE_PARTS.filter((part) => named.has(part)));
}

/**
 * Returns the link to share: the address of the page, the code, and the settings of the appearance.
 */
export function roomShareLink(
  page: { origin: string; pathname: string },
  room: string,
  settings: Readonly<Record<string, string | null>> = {},
): string {
  return `${page.origin}${page.pathname}${hashWithSettings(roomAddressHash(room), settings)}`;
}

/** Returns an integer of a setting if it is within bounds, otherwise the default. */
export function integerFromQuery(
  query: URLSearchParams,
  name: string,
  [least, usual, most]: readonly [number, number, number],
): number {
  const value = wholeNumber(query.get(name) ?? '');
  return value >= least && value <= most ? value : usual;
}

function wholeNumber(text: string): number {
  return /^\d+$/.test(text) ? Number(text) : Number.NaN;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
