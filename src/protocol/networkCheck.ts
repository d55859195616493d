/**
 * The check of a network before a lesson. Tabs that show the page `#network` meet in one room of
 * their server, where nobody trains, and link in pairs.
 */
import * as v from 'valibot';
import { finiteSchema } from './scalars.ts';

/** Code of the room of network checks. The server opens it for the first tab. */
export const NETWORK_CHECK_ROOM = 'NETWRK';
/** Generation of all signals and links in this room. */
export const NETWORK_CHECK_GENERATION = 0;
/** Number of members before a member, and of members after it, to which the member may link. */
export const MAX_NETWORK_CHECK_PARTNERS = 3;

/** Whether two members of the room may link. `members` are in the order in which they joined. */
export function areNetworkCheckPartners(
  members: readonly { readonly member: string }[],
  member: string,
  peer: string,
): boolean {
  const [a, b] = [member, peer].map((one) => members.findIndex((entry) => entry.member === one));
  return a! >= 0 && b! >= 0 && a !== b && Math.abs(a! - b!) <= MAX_NETWORK_CHECK_PARTNERS;
}

const positive = v.pipe(finiteSchema, v.gtValue(0));

export const LinkSpeed = v.strictObject({ roundTripMs: positive, bytesPerSecond: positive });
export type LinkSpeed = v.InferOutput<typeof LinkSpeed>;

export type NetworkCheckResult<Works extends string, Fails extends string, NotTried extends string> =
  | { verdict: 'running' }
  | ({ verdict: 'works'; about: Works } & Partial<LinkSpeed>)
  /** `message`: the reason, in English, if there is more to say than `about` says. */
  | { verdict: 'fails'; about: Fails; message?: string }
  | { verdict: 'not-tried'; about: NotTried };

/** The links to another tab. */
export interface NetworkCheckPairReport {
  name: string;
  /** Whether the other tab is in the same browser, so that its data channel crosses no network. */
  isSameBrowser: boolean;
  direct: NetworkCheckResult<'direct' | 'relayed', 'no-connection' | 'too-slow', 'no-webrtc' | 'only-server'>;
  server: NetworkCheckResult<'encrypted' | 'clear', 'no-link' | 'too-slow', 'off'>;
}

/** The results on one device, in the order in which the page shows them. */
export interface NetworkReport {
  page: NetworkCheckResult<'secure' | 'insecure', never, never>;
  socket: NetworkCheckResult<'answered', 'no-answer' | 'refused', never>;
  addresses: NetworkCheckResult<'names' | 'addresses', 'no-webrtc' | 'none', never>;
  stun: NetworkCheckResult<'found', 'no-answer', 'none' | 'no-server' | 'no-webrtc'>;
  turn: NetworkCheckResult<'found', 'no-answer', 'none' | 'no-server' | 'no-webrtc'>;
  /** The latest first. */
  pairs: readonly NetworkCheckPairReport[];
}

/** For each conclusion from a report: whether training will work; `null`: unknown. */
export const NETWORK_ADVICE = {
  /** Checks are still running. */
  wait: null,
  /** The WebSocket to the server does not open. */
  unreachable: false,
  /** The server does not admit the tab to the room of the checks. */
  refused: false,
  /** No other tab was there. */
  alone: null,
  /** All pairs connect directly. */
  direct: true,
  /** All pairs connect, some of them over TURN. */
  relayed: true,
  /** Some pairs connect by WebRTC, and the others through the server. */
  mixed: true,
  /** No pair connects by WebRTC, and all link through the server. */
  isolated: true,
  /** The server allows no WebRTC, and pairs link through the server. */
  'only-server': true,
  /**
   * All other tabs are in this browser. The link through the server works; data channels are
   * untested.
   */
  'one-browser': true,
  /** All other tabs are in this browser, and the link through the server does not work. */
  'one-browser-only': null,
  /** A pair has no link, and the server forwards none. */
  off: false,
  /** A pair has neither link. */
  none: false,
} as const;
export type NetworkAdvice = keyof typeof NETWORK_ADVICE;

/** What a page tells the launcher. */
export interface NetworkCheckEvent {
  type: 'network-check';
  report: NetworkReport;
  advice: NetworkAdvice;
  /** The page's rows in its language: name, result, and what it means or how fast it is. */
  rows: readonly {
    name: string;
    verdict: NetworkCheckResult<never, never, never>['verdict'];
    result: string;
    note: string;
  }[];
  /** The advice in the page's language. */
  text: string;
}
