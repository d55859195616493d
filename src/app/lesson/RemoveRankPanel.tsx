/**
 * Explains how to remove a rank. In a lesson for one person, a click removes the rank. In a room,
 * the host removes a tab, or somebody closes it.
 */
import { IndexSelect } from '../components/IndexSelect.tsx';
import { useSignal } from '@preact/signals';
import type { LessonState } from '../../protocol/lesson.ts';
import { RemoveButton } from '../components/RemoveButton.tsx';
import { RankMark } from '../components/RankMark.tsx';
import { uiMessages } from '../locales/index.ts';
import type { LessonControls } from './lessonControls.ts';
import { SOLO_RANK_COUNTS } from './solo.ts';

export function RemoveRankPanel({ controls }: { controls: LessonControls }) {
  const { drop } = uiMessages.value.lesson;
  const { state, you, mayDrop } = controls;
  if (controls.drop !== null) return <DropImagined state={state} ondrop={controls.drop} />;
  if (!mayDrop) return <p class="dim">{drop.host}</p>;
  return (
    <>
      <ul class="plain lesson-members">
        {state.members.map(
          ({ member, name }, rank) =>
            rank !== you && (
              <li key={member}>
                <RankMark rank={rank} /> <span class="ellipsis">{name}</span>{' '}
                <RemoveButton member={member} name={name} />
              </li>
            ),
        )}
      </ul>
      <p class="dim small">{drop.room}</p>
    </>
  );
}

function DropImagined({ state, ondrop }: { state: LessonState; ondrop: (rank: number) => void }) {
  const { drop } = uiMessages.value.lesson;
  const n = state.members.length;
  const chosen = useSignal(2);
  const rank = Math.min(chosen.value, n - 1);
  if (n <= SOLO_RANK_COUNTS.min) return <p class="dim">{drop.few}</p>;
  return (
    <div class="row lesson-form">
      <IndexSelect
        class="field"
        label={<span>{drop.who}</span>}
        options={state.members.slice(1).map((_, i) => String(i + 1))}
        index={rank - 1}
        onpick={(index) => (chosen.value = index + 1)}
      />
      <button type="button" onClick={() => ondrop(rank)}>
        {drop.yes}
      </button>
    </div>
  );
}
