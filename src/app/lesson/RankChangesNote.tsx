/** Tells which ranks left or joined, and what this means for the round. */
import type { LessonState } from '../../protocol/lesson.ts';
import { uiMessages } from '../locales/index.ts';

export function RankChangesNote({ state: { change, members } }: { state: LessonState }) {
  const { change: labels } = uiMessages.value.lesson;
  const named = (ones: readonly { rank: number; name: string }[]): string[] =>
    ones.map(({ rank, name }) => labels.rank(rank, name));
  const sentences =
    change === null
      ? []
      : [
          ...(change.left.length > 0 ? [labels.left(named(change.left), members.length - change.joined.length)] : []),
          ...(change.joined.length > 0 ? [labels.joined(named(change.joined))] : []),
          ...(change.isRestarted ? [labels.restarted] : []),
        ];
  return (
    <p class="lesson-change" role="status">
      {sentences.join(' ')}
    </p>
  );
}
