/** Options for connections between tabs in different networks, shared by `serve` and `run`. */
import { type Command, Option } from 'commander';
import { checkIceOptions, type IceOptions } from '../../signaling/ice.ts';

export interface IceFlags {
  stun?: string[];
  turn?: string[];
  turnSecret?: string;
  relayOnly?: true;
}

/** Collects the values of a repeatable option. */
export const collect = (value: string, before: string[]): string[] => [...before, value];

export function addIceOptions(command: Command): Command {
  return command
    .option('--stun <url>', 'STUN server of the tabs, e.g. stun:host:3478 (may be repeated)', collect, [])
    .option('--turn <url>', 'TURN server of the tabs, e.g. turn:host:3478 (may be repeated)', collect, [])
    .addOption(
      new Option('--turn-secret <secret>', 'static-auth-secret of the TURN server').env('PEERGRAD_TURN_SECRET'),
    )
    .option('--relay-only', 'connect tabs only through the TURN server, even if they can reach each other directly');
}

/** @throws UsageError if options contradict each other or an address is invalid. */
export function iceOf({ stun = [], turn = [], turnSecret, relayOnly }: IceFlags): IceOptions {
  const ice = { stun, turn, turnSecret: turnSecret ?? null, relayOnly: relayOnly ?? false };
  checkIceOptions(ice);
  return ice;
}

/**
 * Returns the flags of the ICE options that are set, to report the flags that a process ignores.
 * The secret is not included, because it may come from the environment, which is the same for all
 * commands.
 */
export function iceFlags({ stun = [], turn = [], relayOnly }: IceFlags): string[] {
  return [
    ...(stun.length > 0 ? ['--stun'] : []),
    ...(turn.length > 0 ? ['--turn'] : []),
    ...(relayOnly ? ['--relay-only'] : []),
  ];
}
