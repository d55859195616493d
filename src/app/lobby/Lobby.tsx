/** The lobby: the code, the members, the job, and the button to start. */
import { useSignal } from '@preact/signals';
import { isDataChosenInTabs, jobCanUseFiles, type JobSpec } from '../../spec/job.ts';
import { isPipelineJob } from '../../spec/pipeline.ts';
import type { StateReceiveProgress, ShaderProgress } from '../../protocol/events.ts';
import { assignRanks } from '../../protocol/seating.ts';
import { formatRoomCode } from '../../protocol/roomCode.ts';
import { isHost, isElasticRoom, countTabsMissingToStart } from '../state/derive.ts';
import { describeAutoAlgorithmGain, bucketBytesOf } from '../state/algorithm.ts';
import { describeRunForLobby, noteOnServedPairs, noteOnReadyMembers, whyHostCannotStart } from '../state/lobbyNotes.ts';
import { describeJob, hasSameCosts, gptPresetOf, withMethod } from '../state/jobForm.ts';
import { DismissibleFailureBanner } from '../components/FailureBanner.tsx';
import { FileDrop } from './FileDrop.tsx';
import { DataNotes } from './FilesPreview.tsx';
import { PipelinePreview, PlannedStages } from './PlannedStages.tsx';
import { SharedFiles } from './SharedFiles.tsx';
import { Invitation } from './Invitation.tsx';
import { HostControls } from './HostControls.tsx';
import { JobForm } from '../jobForm/JobForm.tsx';
import { MethodTable } from '../jobForm/MethodTable.tsx';
import { LayerTable } from '../jobForm/LayerTable.tsx';
import { Loading } from '../components/Loading.tsx';
import { LocalNetworkNote } from '../components/LocalNetworkNote.tsx';
import { RankMark } from '../components/RankMark.tsx';
import { RemoveButton } from '../components/RemoveButton.tsx';
import { StatusLine } from '../components/StatusLine.tsx';
import { RingView } from '../ring/RingView.tsx';
import { ServerIcon } from '../ring/ServerShape.tsx';
import { SimulatedRing } from '../ring/SimulatedRing.tsx';
import { pagePartsHiddenByAddress } from '../state/address.ts';
import { sendToEngine } from '../state/store.ts';
import { runPictureOfJob } from '../state/strategies.ts';
import type { LobbyView } from '../state/room.ts';
import type { TabView } from '../state/view.ts';
import { describeGettingReady } from '../state/describeGettingReady.ts';
import { uiMessages } from '../locales/index.ts';
import { HIDEABLE_PAGE_PARTS, type HideablePagePart } from '../state/route.ts';

export function Lobby({ view, lobby }: { view: TabView; lobby: LobbyView }) {
  const room = view.room ?? '';
  const hiding = useSignal(pagePartsHiddenByAddress.peek());
  const labels = uiMessages.value.lobby;
  const host = isHost(view);
  const choosesAlgorithm = host && lobby.phase === 'FORMING';
  const saving = choosesAlgorithm
    ? describeAutoAlgorithmGain(lobby.job, assignRanks(lobby.members, lobby.startAt ?? 0).length)
    : null;
  const ready = lobby.members.filter((one) => one.device !== null).length;
  return (
    <main class="lobby wrap">
      <DismissibleFailureBanner failure={view.failure} />
      {view.failure !== null && (
        <>
          <LocalNetworkNote hasFailed />
          <NetworkCheckLink />
        </>
      )}
      <Invitation
        room={room}
        isLocked={lobby.isLocked}
        hides={hiding.value}
        buttons={host && <HostControls lobby={lobby} />}
      >
        {host && <GuestView hiding={hiding.value} onhiding={(parts) => (hiding.value = parts)} />}
      </Invitation>
      <div class="lobby-columns">
        <section aria-labelledby="who">
          <h2 id="who">{labels.ready(<span class="number">{labels.count(ready, lobby.members.length)}</span>)}</h2>
          <People view={view} lobby={lobby} />
          <StatusLine view={view} />
          {lobby.phase === 'FORMING' && <ServerNote lobby={lobby} />}
          {view.warmup === 'compiling' && view.shaders !== null && <Compiling {...view.shaders} />}
          {view.warmup === 'data' && view.loading !== null && <Loading {...view.loading} />}
          {view.warmup === 'receiving' && view.received !== null && <ReceivingModel {...view.received} />}
          {view.deviceNote !== null && (
            <p class="dim small note" lang="en">
              {view.deviceNote}
            </p>
          )}
        </section>
        <section aria-label={labels.preview} class="lobby-ring">
          {isPipelineJob(lobby.job) ? (
            <PipelinePreview view={view} lobby={lobby} />
          ) : (
            <Preview view={view} lobby={lobby} />
          )}
        </section>
        <section aria-labelledby="what" class="lobby-job">
          <h2 id="what">
            <JobTitle job={lobby.job} />
          </h2>
          {view.resumesAfter !== null && <p>{labels.resumes(view.resumesAfter)}</p>}
          {view.beginsWith !== null && (
            <>
              <p>{labels.beginsWith(view.beginsWith)}</p>
              <DataNotes notes={view.weightNotes} />
            </>
          )}
          {host && lobby.phase === 'FORMING' && view.resumesAfter === null && view.beginsWith === null ? (
            <JobForm
              job={lobby.job}
              columns={columnsOf(view)}
              onjob={(job) => sendToEngine({ type: 'configure', job })}
            />
          ) : (
            !pagePartsHiddenByAddress.value.has('job') && <JobToCome job={lobby.job} />
          )}
          {isDataChosenInTabs(lobby.job.data) && jobCanUseFiles(lobby.job.job) && (
            <FileDrop
              key={lobby.job.job}
              job={lobby.job.job}
              view={view}
              onfiles={(files) => sendToEngine({ type: 'files', files })}
            >
              <p class="dim small">{lobby.job.data.kind === 'federated' ? labels.files.own : labels.files.stay}</p>
            </FileDrop>
          )}
          {lobby.job.data.kind === 'shared' && jobCanUseFiles(lobby.job.job) && (
            <SharedFiles key={lobby.job.job} job={lobby.job.job} view={view} files={lobby.job.data.files} />
          )}
          {isPipelineJob(lobby.job) && <PlannedStages lobby={lobby} />}
          {view.compared !== null && hasSameCosts(view.compared.job, lobby.job) && (
            <MethodTable
              {...view.compared}
              onpick={host ? (method) => sendToEngine({ type: 'configure', job: withMethod(lobby.job, method) }) : null}
            />
          )}
          {saving !== null && <p class="dim small">{saving}</p>}
          {lobby.phase !== 'FORMING' && <Joining view={view} lobby={lobby} />}
        </section>
      </div>
      {lobby.phase === 'FORMING' && <StartBar view={view} lobby={lobby} />}
    </main>
  );
}

/**
 * A link to the page that checks the network. It opens in another tab, because this tab stays in
 * its room.
 */
function NetworkCheckLink() {
  return (
    <p class="small">
      <a href="#network" target="_blank" rel="noopener">
        {uiMessages.value.network.link}
      </a>
    </p>
  );
}

/** Says before a run how many links will go through the server. */
function ServerNote({ lobby }: { lobby: LobbyView }) {
  const note = noteOnServedPairs(lobby);
  return (
    note !== null && (
      <p class="small note">
        <ServerIcon /> {note}
      </p>
    )
  );
}

function columnsOf({ files }: TabView): string[] {
  return files?.preview?.kind === 'table' ? files.preview.columns.map(({ name }) => name) : [];
}

/** Shows the job to members who cannot change it. */
function JobToCome({ job }: { job: JobSpec }) {
  return (
    <>
      <p class="dim">{describeJob(job)}.</p>
      {typeof job.model !== 'string' && <LayerTable model={job.model} />}
    </>
  );
}

function JobTitle({ job }: { job: JobSpec }) {
  const { lobby: labels, lesson, job: jobs } = uiMessages.value;
  if (job.job === 'lesson') return <>{lesson.heading}</>;
  const preset = gptPresetOf(job);
  const size = preset === null ? `${job.gpt.layers} × ${job.gpt.width}` : jobs.presets[preset];
  return <>{labels.jobWith(job.job, job.job === 'gpt' ? size : modelWord(job))}</>;
}

function modelWord({ model }: JobSpec): string {
  return typeof model === 'string' ? model : uiMessages.value.job.models.own;
}

function Compiling({ compiled, total }: ShaderProgress) {
  const { shaders, shadersOf } = uiMessages.value.lobby;
  return (
    <p class="row dim small note">
      <progress class="grow" aria-label={shaders} value={compiled} max={total} />
      <span class="number">{shadersOf(compiled, total)}</span>
    </p>
  );
}

function ReceivingModel({ bytes, total, rate, waitsMs }: StateReceiveProgress) {
  const { receiving, receivedOf, waits } = uiMessages.value.lobby;
  if (waitsMs !== null) return <p class="dim small note">{waits(total / rate!, waitsMs / 1000)}</p>;
  return (
    <p class="row dim small note">
      <progress class="grow" aria-label={receiving} value={bytes} max={total} />
      <span class="number">{receivedOf(bytes, total, rate)}</span>
    </p>
  );
}

/**
 * With more people than this, their list scrolls, so that the button to start stays on the screen.
 */
const MANY_PEOPLE = 32;

function People({ view, lobby }: { view: TabView; lobby: LobbyView }) {
  const places = assignRanks(lobby.members);
  const isLong = lobby.members.length + lobby.spectators.length > MANY_PEOPLE;
  return (
    <ul
      class={`people plain${isHost(view) ? ' led' : ''}${isLong ? ' long' : ''}`}
      aria-labelledby="who"
      {...(isLong && { tabIndex: 0 })}
    >
      {lobby.members.map((one) => (
        <li key={one.member} class={one.device === null ? 'pale' : ''}>
          <RankMark rank={places.indexOf(one)} size={20} />
          <span class="ellipsis">
            {one.name}
            <span class="dim">{roles(one.member === view.member, lobby.hosts.includes(one.member))}</span>
          </span>
          <span class="dim small ellipsis">{one.device === null ? describeGettingReady(one) : one.device.adapter}</span>
          {isHost(view) && one.member !== view.member && <RemoveButton member={one.member} name={one.name} />}
        </li>
      ))}
      {lobby.spectators.map(({ member, name }) => (
        <li key={member}>
          <span class="dim" aria-hidden="true">
            –
          </span>
          <span class="ellipsis">
            {name}
            <span class="dim">{roles(member === view.member, lobby.hosts.includes(member))}</span>
          </span>
          <span class="dim small">{uiMessages.value.lobby.watches}</span>
          {isHost(view) && member !== view.member && <RemoveButton member={member} name={name} />}
        </li>
      ))}
    </ul>
  );
}

function roles(you: boolean, host: boolean): string {
  const labels = uiMessages.value.lobby;
  const names = [...(you ? [labels.you] : []), ...(host ? [labels.host] : [])];
  return names.length === 0 ? '' : labels.roles(names);
}

/**
 * Shows a preview of the ring, or of what replaces it. It has a mark for each member and for each
 * free place. The mark of a member is pale until the member is ready.
 */
function Preview({ view, lobby }: { view: TabView; lobby: LobbyView }) {
  const { job } = lobby;
  const places = assignRanks(lobby.members, lobby.startAt ?? 0);
  const tabs = places.map((one) => (one === null ? { name: null } : { name: one.name, pale: one.device === null }));
  const at = places.findIndex((one) => one?.member === view.member);
  const you = at < 0 ? null : at;
  const picture = runPictureOfJob(job, tabs.length, null, bucketBytesOf(job));
  if (typeof picture !== 'string') {
    return (
      <figure class="simulated">
        <RingView
          members={tabs}
          you={you}
          shape={picture.lines}
          player={null}
          centre={{ top: '', title: '', bottom: '' }}
          label={uiMessages.value.lobby.previewLabel(tabs.length)}
        />
        <figcaption class="caption">{picture.words}</figcaption>
      </figure>
    );
  }
  return <SimulatedRing members={tabs} you={you} algorithm={picture} kind={uiMessages.value.ring.preview} />;
}

function Joining({ view, lobby }: { view: TabView; lobby: LobbyView }) {
  const suspension = view.state === 'WAITING' && isElasticRoom(lobby) ? view.suspension : null;
  return (
    <>
      {suspension === null ? <p class="waiting">{describeRunForLobby(view, lobby)}</p> : <p lang="en">{suspension}</p>}
      {view.failure === null && <LocalNetworkNote hasFailed={suspension !== null} />}
      {view.failure === null && suspension !== null && <NetworkCheckLink />}
    </>
  );
}

/** The code and the button to start. The bar stays at the bottom of the window. */
function StartBar({ view, lobby }: { view: TabView; lobby: LobbyView }) {
  const labels = uiMessages.value.lobby;
  const missing = countTabsMissingToStart(lobby);
  const automatic = missing === null ? null : labels.automatic(lobby.startAt ?? 0, missing);
  const host = isHost(view);
  const obstacle = host ? whyHostCannotStart(lobby, view.member, view.files) : null;
  const note = host
    ? (obstacle ??
      (automatic === null ? noteOnReadyMembers(lobby) : labels.note.sentences(noteOnReadyMembers(lobby), automatic)))
    : (automatic ?? labels.waitingForHost);
  return (
    <div class="start-bar">
      <span class="code" aria-hidden="true">
        {formatRoomCode(view.room ?? '')}
      </span>
      <p id="start-note" class={host ? 'dim small' : 'waiting'}>
        {note}
      </p>
      {host && (
        <button
          type="button"
          class="primary"
          disabled={obstacle !== null}
          aria-describedby="start-note"
          onClick={() => sendToEngine({ type: 'start' })}
        >
          {labels.start}
        </button>
      )}
    </div>
  );
}

interface GuestViewProps {
  hiding: ReadonlySet<HideablePagePart>;
  onhiding: (hiding: ReadonlySet<HideablePagePart>) => void;
}

function GuestView({ hiding, onhiding }: GuestViewProps) {
  const { guests } = uiMessages.value.lobby;
  return (
    <details class="fold">
      <summary>{guests.title}</summary>
      <fieldset class="check-grid">
        <legend class="dim small">{guests.about}</legend>
        {HIDEABLE_PAGE_PARTS.map((part) => (
          <label key={part} class="check">
            <input
              type="checkbox"
              checked={!hiding.has(part)}
              onChange={({ currentTarget: { checked } }) => {
                onhiding(new Set(HIDEABLE_PAGE_PARTS.filter((one) => (one === part ? !checked : hiding.has(one)))));
              }}
            />
            {guests.parts[part]}
          </label>
        ))}
      </fieldset>
    </details>
  );
}
