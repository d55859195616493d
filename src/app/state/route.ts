/**
 * The address. Hash routing: one static file serves every page, and a code never reaches a server's
 * log. `#` home, `#new` start a room, `#lesson` the lesson alone, `#recording` recordings,
 * `#simulated?ranks=32` a simulated run, `#K7F-3QX?name=Ada&auto&rank=2` join a room. Each page
 * reads its settings after the question mark, so a prepared page is a link.
 */
import { formatRoomCode, parseRoomCode } from '../../protocol/roomCode.ts';

export interface Route {
  page: 'home' | 'new' | 'join' | 'lesson' | 'recording' | 'simulated';
  /** The room to join, on the join page. */
  room: string | null;
  /** A name, for launchers and prepared links. */
  name: string | null;
  /** A requested rank; NaN if it is not an integer, which the server rejects. */
  rank: number | null;
  /** Whether to join without a click. */
  auto: boolean;
  /** The text in place of a code, if it is not one. */
  wrongCode: string | null;
  /** All settings after the question mark. */
  query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#\/?/, '');
  const cut = text.indexOf('?');
  const place = decode(cut < 0 ? text : text.slice(0, cut)).trim();
  const query = new URLSearchParams(cut < 0 ? '' : text.slice(cut + 1));
  const name = query.get('name')?.trim().slice(0, MAX_NAME_LENGTH) ?? '';
  const rank = query.get('rank');
  const common = {
    name: name === '' ? null : name,
    rank: rank === null ? null : wholeNumber(rank),
    auto: query.has('auto'),
    query,
  };
  if (place === '') return { page: 'home', room: null, wrongCode: null, ...common };
  if (place === 'new' || place === 'lesson' || place === 'recording' || place === 'simulated') {
    return { page: place, room: null, wrongCode: null, ...common };
  }
  const room = parseRoomCode(place);
  if (room === null) return { page: 'home', room: null, wrongCode: place, ...common };
  return { page: 'join', room, wrongCode: null, ...common };
}

/** Longest name that the signaling server accepts. */
export const MAX_NAME_LENGTH = 40;

export function roomHash(room: string): string {
  return `#${formatRoomCode(room)}`;
}

/** `hash` with changed settings; `null` removes one. */
export function withQuery(hash: string, changes: Readonly<Record<string, string | null>>): string {
  const cut = hash.indexOf('?');
  const place = cut < 0 ? hash || '#' : hash.slice(0, cut);
  const query = new URLSearchParams(cut < 0 ? '' : hash.slice(cut + 1));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  // A flag is a name without a value.
  const text = query.toString().replaceAll(/=(?=&|$)/g, '');
  return text === '' ? place : `${place}?${text}`;
}

/**
 * Settings of appearance on all pages: language, theme, size of letters, hidden parts, speed of
 * players.
 */
const VIEW_SETTINGS = ['lang', 'theme', 'size', 'hide', 'speed'] as const;

/** The settings of appearance in a link. */
export function viewSettings(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries(
    VIEW_SETTINGS.flatMap((name) => {
      const value = query.get(name);
      return value === null ? [] : [[name, value]];
    }),
  );
}

/** Parts of the pages that a link may hide for a class. */
export const PARTS = ['job', 'player', 'grid', 'curves', 'timeline', 'ranks', 'inspection'] as const;
export type Part = (typeof PARTS)[number];

/** The parts of `hide=grid,ranks`; unknown names are ignored. */
export function hiddenParts(query: URLSearchParams): ReadonlySet<Part> {
  const named = new Set((query.get('hide') ?? '').split(','));
  return new Set(PARTS.filter((part) => named.has(part)));
}

/** The link to share: the page's address, the code, and settings of appearance. */
export function roomLink(
  page: { origin: string; pathname: string },
  room: string,
  settings: Readonly<Record<string, string | null>> = {},
): string {
  return `${page.origin}${page.pathname}${withQuery(roomHash(room), settings)}`;
}

/** Whether a link to this host only works on this machine. */
export function isLocalOnly(hostname: string): boolean {
  return (
    hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || hostname.startsWith('127.')
  );
}

/** An integer of a link's settings within bounds; else the default. */
export function numberIn(
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
