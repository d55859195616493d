/**
 * The ICE servers that members receive. There are none by default: a room in one building needs
 * none.
 */
import { createHmac } from 'node:crypto';
import type { IceServer } from '../src/protocol/control.ts';
import { UsageError } from '../src/util/errors.ts';

export interface IceOptions {
  /** `stun:host[:port]` */
  stun: readonly string[];
  /** `turn:host[:port][?transport=tcp]`, or the same with `turns:` */
  turn: readonly string[];
  /** The `static-auth-secret` of coturn, which must run with `use-auth-secret`. */
  turnSecret: string | null;
  /** Whether tabs connect through the TURN server only, even if they can reach each other. */
  relayOnly: boolean;
}

export const NO_ICE: IceOptions = { stun: [], turn: [], turnSecret: null, relayOnly: false };

/**
 * Seconds for which a TURN password is valid. coturn checks the password when an allocation is
 * created and when it is refreshed.
 */
const TURN_TTL_S = 2 * 60 * 60;

/** @throws UsageError with the first invalid option. */
export function checkIceOptions({ stun, turn, turnSecret, relayOnly }: IceOptions): void {
  for (const url of stun) {
    if (!/^stuns?:[^\s/]+$/.test(url)) throw new UsageError(`"${url}" is not a STUN address such as stun:host:3478.`);
  }
  for (const url of turn) {
    if (!/^turns?:[^\s/]+$/.test(url)) throw new UsageError(`"${url}" is not a TURN address such as turn:host:3478.`);
  }
  if (turn.length > 0 && turnSecret === null) {
    throw new UsageError(
      'A TURN server needs a secret. Pass the static-auth-secret of its configuration with --turn-secret.',
    );
  }
  if (relayOnly && turn.length === 0) throw new UsageError('--relay-only needs a TURN server: pass --turn.');
}

/**
 * Returns the milliseconds after which a member needs new ICE servers from {@link iceServersFor},
 * or `null` if nothing expires. This is half of a password's lifetime, so that a password is still
 * valid if it is sent or used late.
 */
export function renewIceAfterMs({ turn }: IceOptions): number | null {
  return turn.length === 0 ? null : (TURN_TTL_S * 1000) / 2;
}

/**
 * Returns the ICE servers for a member. Each member has its own TURN password, which expires
 * (coturn's `use-auth-secret`).
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
