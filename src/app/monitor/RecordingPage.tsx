/**
 * The page that opens flight recordings. It plays their rounds, and shows the latest steps and
 * problems, such as ranks that did not enter a collective.
 */
import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { FlightRecording } from '../../protocol/flightRecording.ts';
import type { PointedStep } from '../charts/axis.ts';
import { downloadJson } from '../../util/download.ts';
import { DropZone } from '../components/DropZone.tsx';
import { RankMark } from '../components/RankMark.tsx';
import { uiMessages } from '../locales/index.ts';
import { canShowTogether } from './analyze.ts';
import { createChromeTrace } from './chromeTrace.ts';
import { CollectivesTable, RecordingFindings } from './Collectives.tsx';
import { mergeRecordedLanes, mergeRecordedTraces } from './mergeRecordings.ts';
import { parseFlightRecordingFile } from './recordingFile.ts';
import { RecordedRoundPlayer } from './RecordedRoundPlayer.tsx';
import { TimelineView } from './TimelineView.tsx';

export function RecordingPage() {
  const { recording: labels } = uiMessages.value.run;
  const recordings = useSignal<readonly FlightRecording[]>([]);
  const problems = useSignal<readonly string[]>([]);
  const all = recordings.value;
  const take = async (files: readonly File[]): Promise<void> => {
    const wrong: string[] = [];
    for (const file of files) {
      const read = parseFlightRecordingFile(await file.text());
      if (!read.ok) wrong.push(labels.wrong(file.name, read.problem));
      else if (!canShowTogether(read.recording, recordings.peek())) {
        wrong.push(labels.wrong(file.name, labels.otherRun(read.recording.rank)));
      } else recordings.value = [...recordings.peek(), read.recording].sort((a, b) => a.rank - b.rank);
    }
    problems.value = wrong;
  };
  return (
    <main class="run wrap recording">
      <h1 class="page-title">{labels.title}</h1>
      <p class="measure">{labels.lead}</p>
      <DropZone
        choose={labels.choose}
        hint={labels.drop}
        accept="application/json,.json"
        class="primary"
        onfiles={(files) => void take(files)}
      />
      {problems.value.length > 0 && (
        <div role="alert">
          {problems.value.map((one) => (
            <p key={one}>
              <span class="wrong" aria-hidden="true">
                ✕
              </span>{' '}
              {one}
            </p>
          ))}
        </div>
      )}
      {all.length > 0 && (
        <>
          <section class="row" aria-label={labels.files}>
            {all.map(({ rank, worldSize, generation }) => (
              <span key={rank} class="nowrap recording-file">
                <RankMark rank={rank} /> <span class="dim small">{labels.of(rank, worldSize, generation)}</span>
              </span>
            ))}
            <button type="button" class="quiet" onClick={() => (recordings.value = [])}>
              {labels.clear}
            </button>
          </section>
          <RecordingFindings recordings={all} />
          <RecordedRoundPlayer recordings={all} />
          <Steps recordings={all} />
          <CollectivesTable recordings={all} />
        </>
      )}
    </main>
  );
}

function Steps({ recordings }: { recordings: readonly FlightRecording[] }) {
  const { recording: labels } = uiMessages.value.run;
  const timeline = useMemo(() => mergeRecordedLanes(recordings), [recordings]);
  const pointed = useSignal<PointedStep | null>(null);
  const save = (): void =>
    downloadJson('peergrad-trace.json', createChromeTrace(timeline, mergeRecordedTraces(recordings)));
  return (
    <section class="panel" aria-label={labels.timeline}>
      <h2 class="panel-title">{labels.timeline}</h2>
      <TimelineView timeline={timeline} you={null} pointed={pointed} empty={labels.noSteps} />
      {timeline.rows.some(({ steps }) => steps.length > 0) && (
        <button type="button" class="quiet save" onClick={save}>
          {labels.save}
        </button>
      )}
    </section>
  );
}
