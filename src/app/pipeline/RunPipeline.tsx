/** The picture of a run whose ranks hold stages of the model. */
import { useMemo } from 'preact/hooks';
import { describeTabState } from '../state/describeTabState.ts';
import { ranksThatLeft, ownRank } from '../state/derive.ts';
import type { RunView } from '../state/run.ts';
import type { TabView } from '../state/view.ts';
import { uiMessages } from '../locales/index.ts';
import { PipelineCaption } from './PipelinePlaybackBar.tsx';
import { PipelinePicture } from './PipelinePicture.tsx';
import type { PipelinePlayer } from './pipelinePlayer.ts';
import { placeInReplica, stagesByRank } from './shape.ts';

export function RunPipeline({ view, run, player }: { view: TabView; run: RunView; player: PipelinePlayer }) {
  const { pipeline: labels } = uiMessages.value;
  const { pipeline, members } = run;
  const stages = useMemo(() => (pipeline === null ? null : stagesByRank(pipeline)), [pipeline]);
  const gone = ranksThatLeft(run, view.lobby);
  const you = ownRank(view, run);
  if (pipeline === null) {
    return (
      <section class="stage" aria-label={labels.title}>
        <p class="dim">{describeTabState(view).word}</p>
      </section>
    );
  }
  const place = you === null ? null : placeInReplica(pipeline, you);
  return (
    <section class="stage" aria-label={labels.title}>
      <PipelinePicture
        shape={pipeline}
        stages={stages}
        members={members.map(({ name }, rank) => ({ name, pale: gone.includes(rank) }))}
        you={you}
        player={player}
      />
      <p class="caption">
        {you !== null && place === null ? labels.noStageHere : <PipelineCaption player={player} place={place} />}
      </p>
    </section>
  );
}
