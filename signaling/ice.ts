/** The ICE servers a member is told about. None by default: a room in one building needs none. */
import { createHmac } from 'node:crypto';
import type { IceServer } from '../src/protocol/control.ts';
import { UsageError } from '../src/util/errors.ts';

export interface IceOptions {
  /** `stun:host[:port]` */
  stun: readonly string[];
  /** `turn:host[:port][?transport=tcp]`, or `turns:` */
  turn: readonly string[];
  /** coturn's `static-auth-secret` (it runs with `use-auth-secret`). */
  turnSecret: string | null;
  /** Tabs connect through the TURN server only, also where they could reach each other. */
  relayOnly: boolean;
}

export const NO_ICE: IceOptions = { stun: [], turn: [], turnSecret: null, relayOnly: false };

/**
 * Seconds a TURN password is good for: coturn checks it when an allocation is made and refreshed.
 */
const TURN_TTL_S = 2 * 60 * 60;

/** @throws UsageError naming the first thing that cannot work. */
export function checkIceOptions({ stun, turn, turnSecret, relayOnly }: IceOptions): void {
  for (const url of stun) {
    if (!/^stuns?:[^\s/]+$/.test(url)) throw new UsageError(`"${url}" is not a STUN address such as stun:host:3478.`);
  }
  for (const url of turn) {
    if (!/^turns?:[^\s/]+$/.test(url)) throw new UsageError(`"${url}" is not a TURN address such as turn:host:3478.`);
  }
  if (turn.length > 0 && turnSecret === null) {
    throw new UsageError("A TURN server needs --turn-secret, the static-auth-secret of the server's configuration.");
  }
  if (relayOnly && turn.length === 0) throw new UsageError('--relay-only needs a TURN server: pass --turn.');
}

/**
 * Milliseconds after which a member needs {@link iceServersFor} anew, or `null` where nothing
 * expires: at half the password's time, so that one told late, or used long after it was told, is
 * still good.
 */
export function renewIceAfterMs({ turn }: IceOptions): number | null {
  return turn.length === 0 ? null : (TURN_TTL_S * 1000) / 2;
}

/**
 * A member's ICE servers, with a TURN password of its own that expires by itself (coturn's
 * `use-auth-secret`).
 *
 * @param nowMs Unix time, milliseconds.
 */
export function iceServersFor(member: string, { stun, turn, turnSecret }: IceOptions, nowMs: number): IceServer[] {
  const servers: IceServer[] = [];
  if (stun.length > 0) servers.push({ urls: [...stun] });
  if (turn.length > 0 && turnSecret !== null) {
    const username = `${Math.floor(nowMs / 1000) + TURN_TTL_S}:${member}`;
    const credential = createHmac('sha1', turnSecret).update(username).digest('base64');
    servers.push({ urls: [...turn], username, credential });
  }
  return servers;
}
