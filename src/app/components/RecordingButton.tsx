/** Downloads the flight recording of this rank. */
import { downloadRecording } from '../state/store.ts';
import { messages } from '../locales/index.ts';

export function RecordingButton() {
  return (
    <button type="button" class="quiet" title={messages.value.shell.recordingAbout} onClick={downloadRecording}>
      {messages.value.shell.recording}
    </button>
  );
}
