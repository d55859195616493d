/** Creates the first message of a tab that opens or joins a room. */
import { PROTOCOL_VERSION, type ClientMessage } from '../../protocol/control.ts';
import { MAX_WORLD_SIZE } from '../../protocol/scalars.ts';
import type { EngineCommand } from '../../protocol/commands.ts';

/** In a room that was opened on a page, ranks may join and leave at any time. */
const ANY_NODES = { min: 1, max: MAX_WORLD_SIZE };

export function openingOf(
  command: Extract<EngineCommand, { type: 'create' | 'join' }>,
): Extract<ClientMessage, { type: 'create' | 'join' }> {
  const { type, name, rank, isSpectator } = command;
  const newcomer = { version: PROTOCOL_VERSION, name, rank, isSpectator } as const;
  if (type === 'create') {
    return { type, ...newcomer, job: command.job, startAt: command.startAt, nodes: ANY_NODES };
  }
  return { type, ...newcomer, room: command.room, hostKey: command.hostKey };
}
