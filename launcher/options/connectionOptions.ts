/** Options for connections between tabs in different networks, shared by `serve` and `run`. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { checkIceOptions, type IceOptions } from '../../signaling/ice.ts';
import type { SignalingOptions } from '../../signaling/index.ts';
import { DEFAULT_LIMITS } from '../../signaling/limits.ts';
import { MIN_BYTES_PER_SECOND } from '../../signaling/links/sharedRate.ts';
import { SERVER_LINK_MODES, type ServerLinkMode } from '../../src/protocol/control.ts';
import { UsageError } from '../../src/util/errors.ts';

export interface ConnectionFlags {
  stun?: string[];
  turn?: string[];
  turnSecret?: string;
  relayOnly?: true;
  serverLinks?: ServerLinkMode;
  /** MB/s. */
  serverLinksRate?: number;
}

/** Collects the values of a repeatable option. */
export const collect = (value: string, before: string[]): string[] => [...before, value];

const BYTES_PER_MB = 1e6;
const DEFAULT_RATE = DEFAULT_LIMITS.serverLinksBytesPerSecond / BYTES_PER_MB;
const MIN_RATE = MIN_BYTES_PER_SECOND / BYTES_PER_MB;

function rate(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  if (Number.isFinite(value) && value >= MIN_RATE) return value;
  throw new InvalidArgumentError(`The rate must be at least ${MIN_RATE} MB/s.`);
}

export function addConnectionOptions(command: Command): Command {
  return command
    .option('--stun <url>', 'STUN server of the tabs, e.g. stun:host:3478 (may be repeated)', collect, [])
    .option('--turn <url>', 'TURN server of the tabs, e.g. turn:host:3478 (may be repeated)', collect, [])
    .addOption(
      new Option('--turn-secret <secret>', 'static-auth-secret of the TURN server').env('PEERGRAD_TURN_SECRET'),
    )
    .option('--relay-only', 'connect tabs only through the TURN server, even if they can reach each other directly')
    .addOption(
      new Option(
        '--server-links <mode>',
        'links through this server: for tabs that cannot reach each other (on), for all tabs (only), or for none (off) (default: on)',
      ).choices(SERVER_LINK_MODES),
    )
    .option(
      '--server-links-rate <MB/s>',
      `rate of all links through this server together (default: ${DEFAULT_RATE})`,
      rate,
    );
}

/** @throws UsageError if options contradict each other or an address is invalid. */
export function connectionsOf({
  stun = [],
  turn = [],
  turnSecret,
  relayOnly,
  serverLinks,
  serverLinksRate,
}: ConnectionFlags): Pick<SignalingOptions, 'serverLinks' | 'serverLinksRate'> & { ice: IceOptions } {
  const ice = { stun, turn, turnSecret: turnSecret ?? null, relayOnly: relayOnly ?? false };
  checkIceOptions(ice);
  if (serverLinks === 'off' && serverLinksRate !== undefined) {
    throw new UsageError('--server-links-rate has no effect with --server-links off. Remove one of them.');
  }
  return {
    ice,
    ...(serverLinks !== undefined && { serverLinks }),
    ...(serverLinksRate !== undefined && { serverLinksRate }),
  };
}

/**
 * Returns the flags of these options that are set, to report the flags that a process ignores.
 * The secret is not included, because it may come from the environment, which is the same for all
 * commands.
 */
export function connectionFlags({
  stun = [],
  turn = [],
  relayOnly,
  serverLinks,
  serverLinksRate,
}: ConnectionFlags): string[] {
  return [
    ...(stun.length > 0 ? ['--stun'] : []),
    ...(turn.length > 0 ? ['--turn'] : []),
    ...(relayOnly ? ['--relay-only'] : []),
    ...(serverLinks === undefined ? [] : ['--server-links']),
    ...(serverLinksRate === undefined ? [] : ['--server-links-rate']),
  ];
}
