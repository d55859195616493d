/** Returns the title of the browser tab: the room, and the progress while the page is hidden. */
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { isUnderWay } from './derive.ts';
import { describeState } from './describeState.ts';
import { upperFirst } from '../../util/text.ts';
import type { View } from './view.ts';
import { messages } from '../locales/index.ts';

/** @param room the room in the address. Perhaps this tab has not entered it. */
export function titleOf(view: View, room: string | null, isHidden: boolean): string {
  if (room === null) return `peergrad: ${messages.value.shell.title}`;
  const name = `${formatRoomCode(room)} · peergrad`;
  const { run, model } = view;
  if (!isHidden || run === null || run.job.job === 'lesson') return name;
  const { word } = describeState(view);
  const { state } = messages.value;
  if (!isUnderWay(view) || word !== state.training || run.last === null) return `${upperFirst(word)} · ${name}`;
  // The number of the step is first, because a browser tab shows only a few letters.
  return `${state.inBackground(run.last.step + 1, model?.totalSteps ?? null)} · ${name}`;
}
