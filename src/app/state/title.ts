/** Returns the title of the browser tab: the room, and the progress while the page is hidden. */
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { isRunUnderWay } from './derive.ts';
import { describeTabState } from './describeTabState.ts';
import { capitalizeFirst } from '../../util/text.ts';
import type { TabView } from './view.ts';
import { uiMessages } from '../locales/index.ts';

/** @param room the room in the address. Perhaps this tab has not entered it. */
export function documentTitleOf(view: TabView, room: string | null, isHidden: boolean): string {
  if (room === null) return `peergrad: ${uiMessages.value.shell.title}`;
  const name = `${formatRoomCode(room)} · peergrad`;
  const { run, model } = view;
  if (!isHidden || run === null || run.job.job === 'lesson') return name;
  const { word } = describeTabState(view);
  const { state } = uiMessages.value;
  if (!isRunUnderWay(view) || word !== state.training || run.last === null) return `${capitalizeFirst(word)} · ${name}`;
  // The number of the step is first, because a browser tab shows only a few letters.
  return `${state.inBackground(run.last.step + 1, model?.totalSteps ?? null)} · ${name}`;
}
