/**
 * The options that say how tabs in different networks reach each other, shared by `serve` and
 * `run`.
 */
import { type Command, Option } from 'commander';
import { checkIceOptions, type IceOptions } from '../../signaling/index.ts';

export interface IceFlags {
  stun?: string[];
  turn?: string[];
  turnSecret?: string;
  relayOnly?: true;
}

/** For options that may be repeated. */
export const collect = (value: string, before: string[]): string[] => [...before, value];

export function addIceOptions(command: Command): Command {
  return command
    .option('--stun <url>', 'a STUN server for the tabs, e.g. stun:host:3478 (may be repeated)', collect, [])
    .option('--turn <url>', 'a TURN server for the tabs, e.g. turn:host:3478 (may be repeated)', collect, [])
    .addOption(new Option('--turn-secret <secret>', "the TURN server's static-auth-secret").env('PEERGRAD_TURN_SECRET'))
    .option('--relay-only', 'tabs connect through the TURN server only, also where they could reach each other');
}

/** @throws UsageError where they contradict each other, or an address is none. */
export function iceOf({ stun = [], turn = [], turnSecret, relayOnly }: IceFlags): IceOptions {
  const ice = { stun, turn, turnSecret: turnSecret ?? null, relayOnly: relayOnly ?? false };
  checkIceOptions(ice);
  return ice;
}

/**
 * What was said, as it stands in the command line. The secret may be the environment's, for all
 * commands.
 */
export function saidOfIce({ stun = [], turn = [], relayOnly }: IceFlags): string[] {
  return [
    ...(stun.length > 0 ? ['--stun'] : []),
    ...(turn.length > 0 ? ['--turn'] : []),
    ...(relayOnly ? ['--relay-only'] : []),
  ];
}
