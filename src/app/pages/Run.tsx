/** Training: the strip, the ring, the curves, one player for ring and grid, the ranks. */
import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { AccuracyCurve, LossCurve, type XAxis } from '../charts/Curves.tsx';
import { isHost, isUnderWay, spokenState } from '../derive.ts';
import { upperFirst } from '../format.ts';
import { describeJob } from '../jobForm.ts';
import { LearnedPanel } from '../learned/LearnedPanel.tsx';
import { Banner } from '../parts/Banner.tsx';
import { Fold } from '../parts/Fold.tsx';
import { HostControls } from '../parts/HostControls.tsx';
import { RecordingButton } from '../parts/RecordingButton.tsx';
import { Term } from '../parts/Term.tsx';
import { GridView } from '../ring/GridView.tsx';
import { PlayerBar } from '../ring/PlayerBar.tsx';
import { RunRing } from '../ring/RunRing.tsx';
import { Caption } from '../ring/SimulatedRing.tsx';
import { usePlayer } from '../ring/usePlayer.ts';
import { pageWidth } from '../theme.ts';
import { closeRun, start } from '../store.ts';
import { insteadOfRing, tellsOwnOnly } from '../strategies.ts';
import type { Run as RunView, View } from '../view.ts';
import { Lanes } from './Lanes.tsx';
import { RankTable } from './RankTable.tsx';
import { ResultPanel } from './ResultPanel.tsx';
import { Strip } from './Strip.tsx';

/** Nobody watches a page that a launcher drives: it does not animate until somebody presses play. */
const WATCHED = globalThis.peergradReport === undefined;

export function Run({ view, run }: { view: View; run: RunView }) {
  const { trace, worldSize } = run;
  const stage = useMemo(() => (trace === null ? null : { trace, n: worldSize }), [trace, worldSize]);
  const player = usePlayer(stage, { autoplay: WATCHED, keys: true });
  const axis = useSignal<XAxis>('step');
  const alone = worldSize === 1;
  const instead = insteadOfRing(run.job, worldSize, view.model?.bucketBytes ?? null);
  const hasRing = !alone && instead === null;
  const ownOnly = tellsOwnOnly(run.job, worldSize);
  const spoken = spokenState(view);
  const narrow = pageWidth.value === 'narrow';
  const names = run.members.map((one) => one.name);
  return (
    <main class="run wrap">
      <h1 class="away">Training</h1>
      {view.failure !== null && (
        <Banner failure={view.failure}>
          {!view.failure.fatal && isHost(view) && (
            <button type="button" class="primary" onClick={start}>
              Start again
            </button>
          )}
          <button type="button" onClick={closeRun}>
            {view.failure.fatal ? 'Join again' : 'Back to the lobby'}
          </button>
          {/* An engine that died without a word has told none. */}
          {(!view.failure.fatal || view.recording !== null) && <RecordingButton />}
        </Banner>
      )}
      {run.result !== null && (
        <ResultPanel
          result={run.result}
          isWhole={run.firstStep === 0 && run.result.restarts === 0}
          host={isHost(view)}
        />
      )}
      <Strip view={view} run={run} />
      <p class="small">
        <span class="dim">{describeJob(run.job)}.</span> {spoken.text !== spoken.word && `${upperFirst(spoken.text)}.`}
      </p>
      {view.note !== null && <p class="dim small">{view.note}</p>}
      <div class="run-columns">
        <section class="stage" aria-label={hasRing ? 'The ring' : 'The ranks'}>
          <RunRing view={view} run={run} player={player} instead={instead} />
          <p class="caption">
            {alone ? (
              <span class="dim">
                Alone: nothing to exchange.
                {instead === null && (
                  <>
                    {' '}
                    With more tabs, an <Term of="all-reduce" /> goes round here.
                  </>
                )}
              </span>
            ) : instead !== null ? (
              instead.words
            ) : run.trace === null && player.stage.value === null ? (
              isUnderWay(view) && (
                <span class="dim">
                  The next <Term of="all-reduce" /> will be replayed here.
                </span>
              )
            ) : (
              <Caption player={player} you={run.rank} />
            )}
          </p>
        </section>
        <section class="curves" aria-label="Curves">
          <div class="axis-choice row small" role="group" aria-label="Horizontal axis">
            {(['step', 'time'] as const).map((one) => (
              <button
                key={one}
                type="button"
                class="choice"
                aria-pressed={axis.value === one}
                onClick={() => (axis.value = one)}
              >
                {one}
              </button>
            ))}
          </div>
          <LossCurve losses={run.losses} changes={run.changes} ownOnly={ownOnly} axis={axis.value} height={160} />
          {!narrow && (
            <>
              <AccuracyCurve evaluations={run.evaluations} losses={run.losses} axis={axis.value} height={112} />
              <Lanes run={run} />
            </>
          )}
        </section>
        {hasRing && (
          <div class="bar-place">
            <PlayerBar player={player} />
          </div>
        )}
      </div>
      <div class="run-columns lower">
        {narrow && (
          <Fold title="Accuracy, and where time goes" class="more-curves">
            <AccuracyCurve evaluations={run.evaluations} losses={run.losses} axis={axis.value} height={112} />
            <Lanes run={run} />
          </Fold>
        )}
        {hasRing && (
          <Fold title="Who holds what" class="holds">
            <GridView names={names} player={player} clock={run.rank} />
          </Fold>
        )}
        <Fold title="Ranks" class={hasRing ? 'ranks-panel' : 'ranks-panel alone'}>
          <RankTable view={view} run={run} />
        </Fold>
      </div>
      <LearnedPanel key={run.number} run={run} />
      {view.failure === null && (
        <div class="row">
          <RecordingButton />
          {view.lobby !== null && isUnderWay(view) && isHost(view) && <HostControls lobby={view.lobby} />}
        </div>
      )}
    </main>
  );
}
