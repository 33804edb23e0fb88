package hostgit

import (
	"slices"
	"strings"
)

// harmless are the keys of a repository that nothing is done about, by
// section: "*" is all that the remedies leave. They choose what git shows,
// keeps, reads or sends where, never what it executes or which files outside
// of the repository it writes. A key of one of these sections that isn't
// named is refused, so that what a newer git adds is.
func harmless() map[string]string {
	return map[string]string{
		"core": "abbrev alternaterefscommand alternaterefsprefixes attributesfile autocrlf bare bigfilethreshold " +
			"checkroundtripencoding checkstat commentchar commentstring commitgraph compression createobject " +
			"deltabasecachelimit eol excludesfile filemode filesreflocktimeout fscache fsmonitor fsmonitorhookversion fsync " +
			"fsyncmethod fsyncobjectfiles hidedotfiles hookspath ignorecase ignorestat lockfilepid logallrefupdates longpaths " +
			"loosecompression maxtreedepth multipackindex notesref packedgitlimit packedgitwindowsize packedrefstimeout " +
			"precomposeunicode prefersymlinkrefs preloadindex protecthfs protectntfs quotepath repositoryformatversion " +
			"restrictinheritedhandles safecrlf sharedrepository sparsecheckout sparsecheckoutcone splitindex symlinks " +
			"trustctime unsetenvvars untrackedcache usereplacerefs warnambiguousrefs whitespace",
		"diff": "algorithm autorefreshindex binary cachetextconv colormoved colormovedws context dirstat funcname ignoresubmodules " +
			"indentheuristic interhunkcontext mnemonicprefix noprefix orderfile relative renamelimit renames statgraphwidth " +
			"statnamewidth submodule suppressblankempty trustexitcode wordregex wserrorhighlight xfuncname dstprefix srcprefix",
		"merge": "autostash branchdesc conflictstyle default defaulttoupstream directoryrenames ff log name recursive " +
			"renamelimit renames renormalize stat suppressdest verbosity verifysignatures",
		"mergetool": "hideresolved keepbackup keeptemporaries prompt trustexitcode writetotemp",
		"difftool":  "prompt trustexitcode",
		"guitool":   "argprompt confirm needsfile noconsole norescan prompt revprompt revunmerged title",
		"filter":    "",
		"alias":     "",
		"pager":     "",
		"hook":      "",
		"credential": "username usehttppath protectprotocol sanitizeprompt interactive " +
			"provider authority azrepos credentialtype tracesecrets guiprompt",
		"gpg":       "format mintrustlevel allowedsignersfile revocationfile",
		"sequence":  "",
		"ssh":       "",
		"submodule": "active alternateerrorstrategy alternatelocation branch fetchjobs fetchrecursesubmodules ignore propagatebranches recurse shallow url",
		"protocol":  "version",
		"http": "curloptresolve delegation emptyauth extraheader followredirects keepalivecount keepaliveidle keepaliveinterval " +
			"lowspeedlimit lowspeedtime maxrequests maxretries maxretrytime minsessions noepsv pinnedpubkey postbuffer proactiveauth proxy " +
			"proxyauthmethod proxysslcainfo retryafter schannelcheckrevoke schannelusesslcainfo sslautoclientcert sslbackend sslcainfo sslcapath " +
			"sslcertpasswordprotected sslcipherlist ssltry sslverify sslversion useragent version",
		"url":        "insteadof pushinsteadof",
		"extensions": "compatobjectformat noop noop-v1 objectformat partialclone preciousobjects refstorage relativeworktrees worktreeconfig",
		"rebase": "abbreviatecommands autosquash autostash backend forkpoint maxlabellength missingcommitscheck rebasemerges " +
			"reschedulefailedexec stat updaterefs",
		"pull": "ff rebase",
		"format": "attach cc coverfromdescription coverletter encodeemailheaders filenamemaxlength forceinbodyfrom from headers mboxrd " +
			"notes noprefix numbered pretty signature signaturefile signoff subjectprefix suffix thread to useautobase",
		"help":        "autocorrect",
		"init":        "defaultbranch defaultobjectformat defaultrefformat",
		"interactive": "singlekey",
		"lfs": "access activitytimeout allowincompletepush basictransfersonly batch cachecredentials concurrenttransfers " +
			"contenttype dialtimeout fetchexclude fetchinclude fetchrecentalways fetchrecentcommitsdays fetchrecentrefsdays " +
			"fetchrecentremoterefs keepalive lockignoredfiles locksverify maxretries maxretrydelay maxverifies " +
			"pruneoffsetdays pruneremotetocheck pruneverifyremotealways pushurl repositoryformatversion setlockablereadonly " +
			"skipdownloaderrors skippush tlstimeout transfermaxretries tustransfers url",
		"sendemail": "aliasesfile aliasfiletype annotate assume8bitencoding bcc blob cc cccover chainreplyto composeencoding confirm " +
			"envelopesender file forbidsendmailvariables from identity imapsentfolder mailmap multiedit outlookidfix signedoffbycc " +
			"signedoffcc smtpauth smtpbatchsize smtpdomain smtpencryption smtppass smtprelogindelay smtpserverport smtpssl " +
			"smtpsslcertpath smtpsslclientcert smtpsslclientkey smtpuser suppresscc suppressfrom thread to tocover " +
			"transferencoding useimaponly validate xmailer",
		"trailer": "ifexists ifmissing key separators where",
		"tar":     "umask remote",
		"web":     "",
		"remotes": "*", "author": "*", "committer": "*", "user": "*", "color": "*", "column": "*", "advice": "*",
		"add": "*", "am": "*", "apply": "*", "attr": "tree", "blame": "*", "bundle": "*", "checkout": "*", "clean": "*",
		"clone": "*", "commit": "*", "commitgraph": "*", "completion": "*", "credentialcache": "*", "credentialstore": "*",
		"fastimport": "*", "feature": "*", "fetch": "*", "fsck": "*", "fsmonitor": "allowremote", "gc": "*", "grep": "*",
		"gui": "*", "gitcvs": "*", "gitweb": "*", "svn": "*", "svn-remote": "*", "git-p4": "*", "gitflow": "*",
		"i18n": "*", "index": "*", "log": "*", "lsrefs": "*", "mailinfo": "*", "mailmap": "*",
		"maintenance": "*", "notes": "*", "pack": "*", "pretty": "*", "promisor": "*", "push": "*", "receive": "*",
		"reftable": "*", "repack": "*", "rerere": "*", "revert": "*", "safe": "*", "showbranch": "*", "sparse": "*",
		"splitindex": "*", "stash": "*", "status": "*", "tag": "*", "trace2": "*", "transfer": "*", "uploadarchive": "*",
		"uploadpack": "*", "uploadpackfilter": "*", "versionsort": "*", "worktree": "*",
		"imap": "", "include": "", "includeif": "",
	}
}

// telling are parts of names that say that the value may be executed.
var telling = []string{ //nolint:gochecknoglobals // a table
	"agent", "args", "browser", "clean", "cmd", "command", "driver", "editor", "exec", "external", "filter", "helper", "hook",
	"pager", "path", "process", "program", "proxy", "script", "shell", "smudge", "tool", "uploadpack", "receivepack", "vcs",
}

// known are names that tell of something else than they do.
var known = map[string]string{ //nolint:gochecknoglobals // a table
	"remote": "partialclonefilter proxyauthmethod proxy",
	"branch": "description",
}

// isHarmless reports whether nothing has to be done about a key. Other
// programs keep keys of their own in a repository, in sections that git
// doesn't know and beneath remotes and branches: they pass if their names
// don't tell of something that is executed.
func isHarmless(key string) bool {
	section, name := parts(key)
	if names, ok := harmless()[section]; ok {
		return names == "*" || slices.Contains(strings.Fields(names), name)
	}
	if strings.HasPrefix(section, "include") {
		return false
	}
	if slices.Contains(strings.Fields(known[section]), name) {
		return true
	}
	return !slices.ContainsFunc(telling, func(t string) bool { return strings.Contains(name, t) })
}
