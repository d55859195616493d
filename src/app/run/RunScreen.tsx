/**
 * The page of a run: figures, ring, curves, timeline, ranks and links. One player moves both the
 * ring and the grid.
 */
import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { AllReduceName } from '../../spec/algorithms.ts';
import { endsWithModel, learnsDigits } from '../../spec/job.ts';
import { isPipelineJob } from '../../spec/pipeline.ts';
import { Curves } from '../charts/Curves.tsx';
import { type PointedStep } from '../charts/axis.ts';
import { isRunEndedEarly, isHost, isDistributing, isTabRemoved, isRunUnderWay, ownRank } from '../state/derive.ts';
import { describeTabState } from '../state/describeTabState.ts';
import { capitalizeFirst } from '../../util/text.ts';
import { describeJob } from '../state/jobForm.ts';
import { SaveModel } from '../modelFiles/SaveModel.tsx';
import { ConfusionPanel } from '../inspection/ConfusionPanel.tsx';
import { InspectionPanel } from '../inspection/InspectionPanel.tsx';
import { ExportButtons } from '../monitor/ExportButtons.tsx';
import { RingLinksTable } from '../monitor/RingLinksTable.tsx';
import { SlowTabReasons } from '../monitor/SlowTabReasons.tsx';
import { Stragglers } from '../monitor/Stragglers.tsx';
import { ranksTimelineOf } from '../monitor/timeline.ts';
import { TimelineView } from '../monitor/TimelineView.tsx';
import { FailureBanner } from '../components/FailureBanner.tsx';
import { CollapsedSection } from '../components/CollapsedSection.tsx';
import { LocalNetworkNote } from '../components/LocalNetworkNote.tsx';
import { HostControls } from '../lobby/HostControls.tsx';
import { RecordingButton } from '../components/RecordingButton.tsx';
import { NoticeText } from '../components/NoticeText.tsx';
import { GlossaryTerm } from '../components/GlossaryTerm.tsx';
import { IdleShare } from '../pipeline/IdleShare.tsx';
import { PipelinePlaybackBar } from '../pipeline/PipelinePlaybackBar.tsx';
import { createPipelinePlayer } from '../pipeline/pipelinePlayer.ts';
import { PlanGrid } from '../pipeline/PlanGrid.tsx';
import { RunPipeline } from '../pipeline/RunPipeline.tsx';
import { ChunkGrid } from '../ring/grid/ChunkGrid.tsx';
import { PlayerBar } from '../ring/player/PlayerBar.tsx';
import { RunRing } from '../ring/RunRing.tsx';
import { RingCaption } from '../ring/SimulatedRing.tsx';
import { usePlayback, useRingPlayer } from '../ring/player/usePlayer.ts';
import type { RingPlayer } from '../ring/player/player.ts';
import { pageWidthClass } from '../browser/theme.ts';
import { pagePartsHiddenByAddress } from '../state/address.ts';
import { closeEndedRun, leaveRoom, sendToEngine } from '../state/store.ts';
import { runPictureOfJob, type RunPictureWithoutAllReduce } from '../state/strategies.ts';
import type { FailureView, TabView } from '../state/view.ts';
import type { RunView } from '../state/run.ts';
import { uiMessages } from '../locales/index.ts';
import { GenerationPanel } from '../generation/GenerationPanel.tsx';
import { StepTimesByRank } from './StepTimesByRank.tsx';
import { RankTable } from './RankTable.tsx';
import { EndedRunPanel, ResultPanel } from './ResultPanel.tsx';
import { RunFactsLine } from './RunFactsLine.tsx';
import { formatPercent } from '../locales/format.ts';
import { RankMark } from '../components/RankMark.tsx';

/**
 * Whether a person watches this page. If a launcher drives the page, the ring does not move until
 * somebody presses play.
 */
const WATCHED = globalThis.peergradReport === undefined;

export function RunScreen({ view, run }: { view: TabView; run: RunView }) {
  const { run: labels } = uiMessages.value;
  const { trace, worldSize } = run;
  const stage = useMemo(() => (trace === null ? null : { trace, n: worldSize }), [trace, worldSize]);
  const isDivided = isPipelineJob(run.job);
  const player = useRingPlayer(stage, { autoplay: WATCHED, keys: !isDivided });
  const schedule = usePlayback(run.pipeline, createPipelinePlayer, { autoplay: WATCHED, keys: isDivided });
  const pointed = useSignal<PointedStep | null>(null);
  const alone = worldSize === 1;
  const codec = run.choice?.codec ?? run.job.codec;
  // A trace is replayed in the picture of its own algorithm.
  const picture =
    trace?.algorithm ??
    runPictureOfJob({ ...run.job, codec }, worldSize, run.algorithm, view.model?.bucketBytes ?? null);
  const hides = pagePartsHiddenByAddress.value;
  const hasRounds = !alone && !isDivided && typeof picture === 'string';
  const hasGrid = hasRounds && !hides.has('grid');
  const stateText = describeTabState(view);
  const isEnded = isRunEndedEarly(view);
  const narrow = pageWidthClass.value === 'narrow';
  // These parts are rendered when their data change, not at every step, because rows are expensive
  // with many ranks.
  const { statistics, telemetry, lanes, links, members, hashes, rank, job, confusion, shares } = run;
  const lanesNow = useMemo(() => <StepTimesByRank run={run} />, [statistics, job]);
  const linksNow = useMemo(() => <RingLinksTable run={run} />, [statistics, telemetry, links, members, rank]);
  const monitorNow = useMemo(
    () => <Monitor run={run} pointed={pointed} />,
    [statistics, telemetry, lanes, members, run.pipeline],
  );
  const ranksNow = useMemo(
    () => <RankTable view={view} run={run} />,
    [statistics, telemetry, links, members, hashes, shares, rank, run.pipeline, run.result, view.lobby, view.member],
  );
  const confusionNow = useMemo(() => confusion !== null && <ConfusionPanel confusion={confusion} />, [confusion]);
  // A failed run keeps the weights of its latest step, so that they can be saved. The run itself
  // cannot be continued.
  const keepModel =
    endsWithModel(job) && view.member !== null && ownRank(view, run) !== null ? (
      <SaveModel job={run.job} isOn={isRunUnderWay(view)} bestStep={run.result?.best?.step ?? null} />
    ) : null;
  return (
    <main class="run wrap">
      <h1 class="away">{labels.title}</h1>
      {view.failure !== null && !isEnded && <Failed view={view} run={run} failure={view.failure} />}
      {view.failure !== null && isEnded && (
        <EndedRunPanel run={run} failure={view.failure} host={isHost(view)}>
          {keepModel}
        </EndedRunPanel>
      )}
      {((view.failure !== null && !isEnded) || view.suspension !== null) && <LocalNetworkNote hasFailed />}
      {run.result !== null && (
        <ResultPanel
          job={job}
          run={run.number}
          result={run.result}
          isWhole={run.firstStep === 0 && run.result.restarts === 0}
          host={isHost(view)}
        >
          {keepModel}
        </ResultPanel>
      )}
      <RunFactsLine view={view} run={run} />
      <div class="run-line">
        <p class="small">
          {!hides.has('job') && <span class="dim">{describeJob(run.job)}. </span>}
          {stateText.text !== stateText.word && `${capitalizeFirst(stateText.text)}.`}
        </p>
        {view.lobby !== null && isRunUnderWay(view) && isHost(view) && (
          <div class="row">
            <HostControls lobby={view.lobby} />
          </div>
        )}
      </div>
      {run.choice !== null && <p class="dim small">{labels.choice(run.choice)}</p>}
      {view.suspension !== null && (
        <p class="dim small">
          <NoticeText {...view.suspension} />
        </p>
      )}
      {view.note !== null && (
        <p class="dim small">
          {/* The note of a simulated run is in the page's language. */}
          <NoticeText {...view.note} lang={view.room === null ? '' : 'en'} />
        </p>
      )}
      {isRunUnderWay(view) && <SlowTabReasons view={view} run={run} />}
      {isRunUnderWay(view) && isDistributing(run) && <Distribution view={view} run={run} />}
      <div class="run-columns">
        {isDivided ? (
          <RunPipeline view={view} run={run} player={schedule} />
        ) : (
          <section
            class="stage"
            aria-label={!hasRounds ? labels.ranks : picture === 'ring' ? labels.ring : labels.allReduce}
          >
            <RunRing view={view} run={run} player={player} picture={picture} />
            <p class="caption">
              <RoundCaption view={view} run={run} player={player} picture={picture} />
            </p>
          </section>
        )}
        <section class="curves" aria-label={labels.curvesSection}>
          {!hides.has('curves') && <Curves run={run} pointed={pointed} />}
          {!narrow && !hides.has('timeline') && lanesNow}
        </section>
        {(hasRounds || run.pipeline !== null) && !hides.has('player') && (
          <div class="bar-place">
            {isDivided ? <PipelinePlaybackBar player={schedule} /> : <PlayerBar player={player} />}
          </div>
        )}
      </div>
      {/* Nothing was trained, so there is nothing to inspect. */}
      {!hides.has('inspection') && view.member !== null && learnsDigits(job.job) && endsWithModel(job) && (
        <InspectionPanel key={run.number} run={run} />
      )}
      {!hides.has('inspection') && view.member !== null && job.job === 'gpt' && endsWithModel(job) && (
        <GenerationPanel
          key={run.number}
          run={run}
          // After a run with a pipeline, no tab has the whole model, so prompts cannot be
          // continued.
          asks={ownRank(view, run) !== null && (!isPipelineJob(job) || run.result === null)}
        />
      )}
      <div class="run-columns lower">
        {hasGrid && (
          <CollapsedSection title={labels.holds} class="holds">
            <ChunkGrid names={run.members.map((one) => one.name)} player={player} clock={run.rank} />
          </CollapsedSection>
        )}
        {!alone && !hides.has('ranks') && (
          <CollapsedSection title={labels.links} class={hasGrid ? 'links-panel' : 'whole-width'}>
            {linksNow}
          </CollapsedSection>
        )}
        {!hides.has('ranks') && (
          <CollapsedSection title={labels.ranksPanel} class="ranks-panel whole-width">
            {ranksNow}
          </CollapsedSection>
        )}
        {run.pipeline !== null && !hides.has('grid') && (
          <CollapsedSection title={uiMessages.value.pipeline.plan} class="whole-width">
            <PlanGrid player={schedule} />
          </CollapsedSection>
        )}
        {!hides.has('timeline') && (
          <CollapsedSection title={labels.timeline} class="whole-width">
            {narrow && lanesNow}
            {monitorNow}
          </CollapsedSection>
        )}
      </div>
      {!hides.has('inspection') && confusionNow}
      {run.result === null && !isEnded && keepModel}
      {(view.failure === null || isEnded) && (
        <div class="row">
          <ExportButtons run={run} records={ownRank(view, run) !== null} />
        </div>
      )}
    </main>
  );
}

function Failed({ view, run, failure }: { view: TabView; run: RunView; failure: FailureView }) {
  const { run: labels } = uiMessages.value;
  return (
    <FailureBanner failure={failure}>
      {!failure.fatal && isHost(view) && (
        <button type="button" class="primary" onClick={() => sendToEngine({ type: 'start' })}>
          {labels.startAgain}
        </button>
      )}
      {/* A removed tab does not return by a click. */}
      <button type="button" onClick={isTabRemoved(failure) ? leaveRoom : () => closeEndedRun(run.number)}>
        {isTabRemoved(failure) ? labels.frontPage : failure.fatal ? labels.joinAgain : labels.backToLobby}
      </button>
      {/* A failed engine may have failed before it sent a recording. */}
      {(!failure.fatal || view.recording !== null) && <RecordingButton />}
    </FailureBanner>
  );
}

interface CaptionProps {
  view: TabView;
  run: RunView;
  player: RingPlayer;
  picture: AllReduceName | RunPictureWithoutAllReduce;
}

function RoundCaption({ view, run, player, picture }: CaptionProps) {
  const { run: labels } = uiMessages.value;
  if (run.worldSize === 1) {
    const isShown = typeof picture === 'string';
    return <span class="dim">{isShown ? labels.aloneShown(<GlossaryTerm of="all-reduce" />) : labels.alone}</span>;
  }
  if (typeof picture !== 'string') return <>{picture.words}</>;
  if (run.trace !== null || player.round.value !== null)
    return <RingCaption player={player} you={ownRank(view, run)} />;
  return isRunUnderWay(view) ? <span class="dim">{labels.nextRound(<GlossaryTerm of="all-reduce" />)}</span> : null;
}

function Monitor({ run, pointed }: { run: RunView; pointed: Parameters<typeof TimelineView>[0]['pointed'] }) {
  const { run: labels } = uiMessages.value;
  const { lanes, members, telemetry, rank } = run;
  const timeline = useMemo(
    () => ranksTimelineOf({ lanes, members, telemetry, rank }),
    [lanes, members, telemetry, rank],
  );
  return (
    <>
      <Stragglers run={run} />
      {run.pipeline !== null && <IdleShare pipeline={run.pipeline} lanes={lanes} />}
      <TimelineView
        timeline={timeline}
        you={rank}
        pointed={pointed}
        empty={labels.statisticsLater(run.job.hashEvery)}
      />
    </>
  );
}

function Distribution({ view, run }: { view: TabView; run: RunView }) {
  const { what, total, bytesPerRank } = run.distribution!;
  const labels = uiMessages.value.run.distribution[what];
  const own = ownRank(view, run);
  const here = own === null ? null : bytesPerRank[own]!;
  return (
    <section aria-labelledby="distribution">
      <h2 id="distribution">{labels.title}</h2>
      {here !== null && <p class="dim small">{here === total ? labels.all(total) : labels.about(here, total)}</p>}
      <ul class="file-distribution plain">
        {run.members.map(({ member, name }, rank) => (
          <li key={member}>
            <RankMark rank={rank} />
            <span class="ellipsis">{name}</span>
            <progress aria-label={name} value={bytesPerRank[rank]} max={total} />
            <span class="number right">{formatPercent(bytesPerRank[rank]! / total)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
